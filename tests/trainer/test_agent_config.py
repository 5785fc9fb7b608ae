"""Where the agent's settings come from, and what labels say."""

from dataclasses import replace

import pytest

from dare_reward.errors import ConfigError, RequestError
from dare_trainer.agent.config import FILE, AgentConfig, config_text, read_config

pytestmark = pytest.mark.usefixtures("plugins")


def test_file_then_environment(tmp_path):
    (tmp_path / FILE).write_text('url = "http://file:1"\nvotes_per_prompt = 64\ntimeout = 5\n[params]\nalpha = 0.2\n')
    found = read_config(
        tmp_path, {"DARE_AGENT_URL": "http://env:2", "DARE_AGENT_PRUNED": "mask", "DARE_URL": "not ours"}
    )
    assert (found.url, found.votes_per_prompt, found.timeout, found.pruned) == ("http://env:2", 64, 5.0, "mask")
    assert dict(found.params) == {"alpha": 0.2}
    assert found.every_param["alpha"] == 0.2
    assert found.every_param["tau"] == 0.05  # a server's own defaults cannot enter


def test_environment_alone(tmp_path):
    found = read_config(
        tmp_path, {"DARE_AGENT_PARAMS": '{"weight": "sqrt"}', "DARE_AGENT_RETRIES": "1", "DARE_AGENT_PATIENCE": "2.5"}
    )
    assert (found.every_param["weight"], found.retries, found.patience) == ("sqrt", 1, 2.5)


def test_a_named_file(tmp_path):
    path = tmp_path / "else.toml"
    path.write_text('method = "ttrl"\n')
    assert read_config(tmp_path / "nowhere", {"DARE_AGENT_CONFIG": str(path)}).method == "ttrl"
    with pytest.raises(ConfigError, match="no such file"):
        read_config(tmp_path, {"DARE_AGENT_CONFIG": str(tmp_path / "missing")})


def test_what_is_written_is_read_but_for_the_token(tmp_path):
    params = {"tau": 0.1, "weight": "exp"}
    config = AgentConfig(url="http://r:8", run='a "b"', method="dare", params=params, temperature=0.7, token="secret")
    (tmp_path / FILE).write_text(config_text(config))
    assert "secret" not in config_text(config)
    assert read_config(tmp_path, {}) == replace(config, token="")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("votes = 3\n", "unknown setting 'votes'"),
        ('pruned = "gone"\n', "pruned must be one of zero, neutral, mask"),
        ('votes_per_prompt = "many"\n', "votes_per_prompt must be an integer"),
        ("votes_per_prompt = -1\n", "votes_per_prompt must be an integer >= 0"),
        ("timeout = true\n", "timeout must be a finite number"),
        ("params = 3\n", "params must be a JSON object"),
        ("shadow = 3\n", "shadow must be different names"),
        ('shadow = ["evol_rl"]\n', "shadow: evol_rl needs embedding, which the agent does not send"),
        ("url = \n", FILE),
    ],
)
def test_mistakes_are_named(tmp_path, text, words):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_config(tmp_path, {})


def test_a_wrong_parameter_fails_at_the_start(tmp_path):
    (tmp_path / FILE).write_text("[params]\nalhpa = 0.2\n")
    with pytest.raises(RequestError, match="alhpa"):
        read_config(tmp_path, {})


@pytest.mark.parametrize("text", ['shadow = ["ttrl", "scrl"]', 'shadow = "ttrl,scrl"'])
def test_shadow_methods(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    found = read_config(tmp_path, {})
    assert found.shadow == ("ttrl", "scrl")
    assert read_config(tmp_path, {"DARE_AGENT_SHADOW": "rent"}).shadow == ("rent",)
    (tmp_path / FILE).write_text(config_text(found))
    assert read_config(tmp_path, {}) == found


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "cocov"}, "cocov returns advantages and OpenRLHF would normalise them again"),
        ({"method": "ddrl"}, "ddrl trains on a selection of rollouts, and OpenRLHF trains on every rollout"),
        ({"shadow": ("nosuch",)}, "shadow: unknown method. Known: dare"),
        ({"shadow": ("ttrl", "ttrl")}, "shadow must be different names"),
    ],
)
def test_methods_that_openrlhf_cannot_use_fail_at_the_start(settings, words):
    with pytest.raises((ConfigError, RequestError), match=words):
        AgentConfig(**settings)


def test_one_group_a_call_is_no_batch():
    """The agent sends one group a call; gmae's factor is over all of a step."""
    with pytest.raises(RequestError, match="one group a call"):
        AgentConfig(method="gmae")
    assert AgentConfig(method="gmae", params={"calibration": "none"}).every_param["calibration"] == "none"


def test_the_first_of_the_tokens_is_sent(tmp_path):
    assert read_config(tmp_path, {"DARE_TOKEN": "new old"}).token == "new"


def test_a_misspelt_variable_is_warned_of(tmp_path, caplog):
    assert read_config(tmp_path, {"DARE_AGENT_METHDO": "ttrl"}).method == "dare"
    assert "DARE_AGENT_METHDO is not read. Did you mean DARE_AGENT_METHOD?" in caplog.text
