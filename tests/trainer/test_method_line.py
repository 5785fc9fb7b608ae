"""The agent and the recipes take the line that `dare-reward calibrate` prints."""

import shlex
from urllib.parse import parse_qs, urlsplit

import pytest

from dare_reward.cli import main
from dare_reward.errors import ConfigError
from dare_reward.methods import read_line
from dare_trainer.agent.config import FILE, AgentConfig, config_text, read_config

LINE = "method=calibrated_vote&exponent=-4&eps=0.01"
METHOD, PARAMS = read_line(LINE)
RECIPE = "aime24-qwen2.5-math-1.5b"


def test_the_agent_by_variable_and_by_file(tmp_path):
    found = read_config(tmp_path, {"DARE_AGENT_PARAMS": LINE})
    assert (found.method, dict(found.params)) == (METHOD, PARAMS)
    (tmp_path / "dare_agent.toml").write_text(f'params = "{LINE}"\n')
    found = read_config(tmp_path, {})
    assert (found.method, dict(found.params)) == (METHOD, PARAMS)
    (tmp_path / FILE).write_text(config_text(found))
    assert read_config(tmp_path, {}) == found


def test_the_variable_wins_over_the_file_and_contradicts_another_variable(tmp_path):
    (tmp_path / FILE).write_text(config_text(AgentConfig(method="ttrl")))
    assert read_config(tmp_path, {"DARE_AGENT_PARAMS": LINE}).method == METHOD
    with pytest.raises(ConfigError, match="leave method out"):
        read_config(tmp_path, {"DARE_AGENT_PARAMS": LINE, "DARE_AGENT_METHOD": "dare"})


@pytest.mark.parametrize("flags", [["--params", LINE], ["--agent", f"params={LINE}"]])
def test_a_recipe_on_the_url_route(flags, capsys):
    words = ["train", "--recipe", RECIPE, "--reward-url", "http://r:8000", "--route", "url", "--dry-run", *flags]
    assert main(words) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    (url,) = (w for w in command if w.startswith("http://r:8000/reward"))
    query = {k: v[0] for k, v in parse_qs(urlsplit(url).query).items()}
    assert query["method"] == METHOD
    assert {k: float(query[k]) for k in PARAMS} == PARAMS


def test_a_recipe_on_the_agents_route(monkeypatch, tmp_path):
    """The folder that the command points to."""
    from dare_trainer.launch import commands, compose
    from dare_trainer.launch.recipes import find_recipe

    seen = []
    monkeypatch.setattr(commands, "plan", lambda *asked: seen.append(asked[1]) or compose.plan(*asked))
    words = ["--recipe", RECIPE, "--reward-url", "http://r:8000", "--out", str(tmp_path), "--params", LINE]
    assert main(["train", *words, "--dry-run"]) == 0
    flags, config = compose.plan(find_recipe(RECIPE), seen[0])
    found = read_config(compose.prepare_folder(flags, config), {})
    assert (found.method, dict(found.params)) == (METHOD, PARAMS)
    assert found.every_param["weight"] == "linear"
