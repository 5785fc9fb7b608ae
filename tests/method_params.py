"""What a request must set to use a method at all: a module of its own, as several folders of tests have a conftest."""

from dare_reward.methods import find

# What methods have no default for: those of examples/plugins too.
REQUIRED = {
    "restrain": {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 1.0},
    "jury_rl": {"c": 0.5},
    "calibrated_vote": {"exponent": -2.0},
}


def allowing(method):
    return {"allow_experimental": True} if find(method).experimental else {}


def params_of(method, **others):
    """What a request must set to use the method at all."""
    return {**allowing(method), **REQUIRED.get(method, {}), **others}
