"""Every route of the service takes the line that `dare-reward calibrate` prints, and gives the same rewards by it."""

import pytest

import dare_reward
from dare_reward.methods import read_line
from dare_service.settings import Settings, SettingsError, from_environment

LINE = "method=calibrated_vote&exponent=-4&eps=0.01"
METHOD, PARAMS = read_line(LINE)


@pytest.fixture
def group(full_groups):
    return full_groups(seed=21, count=1, size=8)[0]


@pytest.fixture
def expected(group):
    (found,) = dare_reward.estimate([group], method=METHOD, **PARAMS).groups
    (plain,) = dare_reward.estimate([group], method="dare").groups
    assert found.rewards != plain.rewards
    return list(found.rewards)


def test_as_the_servers_default(make_service, group, expected):
    settings = from_environment({"DARE_PARAMS": LINE})
    served = make_service(method=settings.method, params=settings.params)
    assert served.post({"groups": [group]}).json()["groups"][0]["rewards"] == expected
    assert served.get("/info").json()["settings"]["method"] == METHOD


@pytest.mark.parametrize(("served", "asked"), [("majority", "ttrl"), ("ttrl", "majority"), ("majority", None)])
def test_parameters_are_those_of_a_method_by_any_of_its_names(make_service, served, asked):
    """`tie=certainty` needs entropies, which these rollouts lack."""
    service = make_service(method=served, params='{"tie": "certainty"}')
    body = {"groups": [{"rollouts": [{"answer": "1"}]}]} | ({} if asked is None else {"method": asked})
    assert service.post(body).json()["groups"][0]["error"]["code"] == "missing_input"


def test_a_line_and_another_method_contradict_each_other():
    assert from_environment({"DARE_PARAMS": LINE, "DARE_METHOD": METHOD}).method == METHOD
    with pytest.raises(SettingsError, match="DARE_PARAMS names the method calibrated_vote"):
        from_environment({"DARE_PARAMS": LINE, "DARE_METHOD": "dare"})
    assert from_environment({"DARE_PARAMS": '{"alpha": 0.2}'}) == Settings(params='{"alpha": 0.2}')
