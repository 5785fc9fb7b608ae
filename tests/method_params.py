"""What a request must set to use a method at all: a module of its own, as several folders of tests have a conftest."""

from dare_reward.methods import find

# What methods have no default for: those of research too, which run through these tests where it is installed.
REQUIRED = {
    "restrain": {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 1.0},
    "jury_rl": {"c": 0.5},
    "calibrated_vote": {"exponent": -2.0},
}


def params_of(method, **others):
    """What a request must set to use the method at all."""
    allow = {"allow_experimental": True} if find(method).experimental else {}
    return {**allow, **REQUIRED.get(method, {}), **others}
