"""The URL as configuration."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from dare_reward.errors import RequestError
from dare_reward.methods import methods
from dare_reward.options import OPENRLHF_URL
from dare_service.joins.url_options import openrlhf, pasteable
from dare_service.settings import Settings, SettingsError, from_environment
from dare_service.single_process import join_refusal

pytestmark = pytest.mark.usefixtures("plugins")

SETTINGS = Settings()


def test_nothing_said_is_the_defaults():
    config = openrlhf("", SETTINGS)
    assert (config.method, config.group_size, config.run, config.kind) == ("dare", None, "", "math")
    assert (config.deadline, config.on_deadline, config.extra_logs) == (800.0, "score", "on")
    assert dict(config.params)["missing_entropy"] == "frequency"


def test_everything_can_be_said():
    config = openrlhf(
        "group_size=32&run=aime%2F1&method=dare_sqrt&alpha=0.2&tau=0&pruned=neutral&missing_entropy=error&kind=choice"
        "&options=ABCDE&deadline=600&on_deadline=neutral&extra_logs=off&label_policy=eval&token=x",
        SETTINGS,
    )
    assert (config.group_size, config.run, config.method) == (32, "aime/1", "dare_sqrt")
    params = dict(config.params)
    assert (params["alpha"], params["tau"], params["pruned"], params["missing_entropy"]) == (
        0.2,
        0.0,
        "neutral",
        "error",
    )
    assert params["weight"] == "sqrt"
    assert (config.kind, config.deadline, config.on_deadline) == ("choice", 600.0, "neutral")
    assert (config.extra_logs, config.label_policy) == ("off", "eval")


def test_the_servers_defaults_stand_between_the_url_and_the_route():
    served = Settings(params='{"alpha": 0.3, "missing_entropy": "group_mean"}')
    params = dict(openrlhf("", served).params)
    assert (params["alpha"], params["missing_entropy"]) == (0.3, "group_mean")
    assert dict(openrlhf("alpha=0.4", served).params)["alpha"] == 0.4
    assert dict(openrlhf("method=dare_sqrt", served).params)["alpha"] == 0.1


def test_the_token_is_no_part_of_the_configuration():
    assert openrlhf("run=a&token=one", SETTINGS) == openrlhf("run=a&token=two", SETTINGS)
    assert "secret" not in repr(openrlhf("run=a&token=secret", SETTINGS))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "grup_size=8",
            ["'grup_size'", "Did you mean group_size (an integer >= 1)?"],
        ),
        ("group_size=8.5", ["group_size must be an integer >= 1"]),
        ("group_size=0", ["group_size must be an integer >= 1"]),
        ("group_size=4096", ["at most 1024", "DARE_MAX_ROLLOUTS"]),
        ("alpha=2", ["alpha must be a finite number >= 0 and <= 1"]),
        ("alpha=x", ["alpha must be a finite number"]),
        ("weight=cube", ["weight must be one of linear, sqrt, exp, log, none"]),
        ("kind=poem", ["kind must be one of math, choice, text, exact"]),
        ("options=AB", ["is for kind=choice"]),
        ("on_deadline=cry", ["on_deadline must be one of score, neutral"]),
        ("extra_logs=maybe", ["extra_logs must be one of on, off"]),
        ("deadline=850", ["must be below 850"]),
        ("deadline=-1", ["deadline must be a finite number > 0"]),
        ("method=none", ["unknown method. Known: dare"]),
        ("run=" + "a" * 257, ["query.run: run must be a string of at most 256 characters"]),
        ("run=a&run=b", ["'run' is given twice"]),
        ("detail=full", ["unknown parameter 'detail'"]),
    ],
)
def test_what_is_wrong_is_named_with_what_is_accepted(query, words):
    with pytest.raises(RequestError) as caught:
        openrlhf(query, SETTINGS)
    assert all(w in str(caught.value) for w in words), str(caught.value)
    assert str(caught.value).startswith(("query", "method"))


def test_methods_that_need_more_than_single_rollouts_carry_are_refused_by_name(needed_params):
    carried = {"answer", "mean_entropy", "num_tokens", "label"}
    for method in methods().values():
        if set(method.requires) <= carried and method.output == "rewards" and not method.selects:
            alone = {"calibration": "none"} if method.whole_batch else {}
            query = urlencode({"method": method.name, **needed_params(method.name), **alone})
            assert openrlhf(query, SETTINGS).method == method.name
        else:
            with pytest.raises(RequestError, match=method.name):
                openrlhf(f"method={method.name}", SETTINGS)


def test_a_method_with_a_selection_that_nobody_follows_is_refused():
    with pytest.raises(RequestError, match=r"ddrl trains on a selection.*such as ttrl") as caught:
        openrlhf("method=ddrl", SETTINGS)
    assert caught.value.code == "selection"


def test_a_parameter_of_the_urls_own_name_is_the_methods_by_its_name():
    """`group_size` is the join's; that of gmae, the size of its sub-groups, is gmae.group_size."""
    config = openrlhf("method=gmae&calibration=none&group_size=32&gmae.group_size=16", SETTINGS)
    assert (config.group_size, dict(config.params)["group_size"]) == (32, 16)
    assert dict(openrlhf("method=gmae&calibration=none&group_size=32", SETTINGS).params)["group_size"] is None
    own = {*OPENRLHF_URL, "method", "token", "detail"}
    both = {(m.name, s.name) for m in methods().values() for s in m.specs if s.name in own}
    assert both == {("gmae", "group_size")}


def test_the_url_to_paste_keeps_what_was_said_and_hides_the_token():
    url = pasteable("http://host:8000/reward", "alpha=0.2", token=True)
    assert url == "http://host:8000/reward?group_size=8&run=NAME-$(date +%s)-$$&alpha=0.2&token=TOKEN"
    query = url.partition("?")[2]
    assert openrlhf(query, SETTINGS).group_size == 8


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"DARE_JOIN_HOLD": "180"}, "DARE_JOIN_HOLD must be"),
        ({"DARE_JOIN_DEADLINE": "850"}, "DARE_JOIN_DEADLINE must be below 5 x DARE_JOIN_HOLD, 850"),
        ({"DARE_JOIN_HOLD": "100"}, "below 5 x DARE_JOIN_HOLD, 500"),
        ({"DARE_JOIN_MIN_SHARE": "1"}, "DARE_JOIN_MIN_SHARE must be"),
    ],
)
def test_settings_that_would_lose_rewards_are_refused(environment, words):
    with pytest.raises(SettingsError, match=words):
        from_environment(environment)


@pytest.mark.parametrize(
    ("environment", "argv", "refused"),
    [
        ({}, ["dare-reward", "serve"], ""),
        ({"WEB_CONCURRENCY": "1"}, [], ""),
        ({"WEB_CONCURRENCY": "4"}, [], "WEB_CONCURRENCY=4"),
        ({"UVICORN_WORKERS": "2"}, [], "UVICORN_WORKERS=2"),
        ({}, ["uvicorn", "--workers", "3", "app"], "3 workers"),
        ({}, ["uvicorn", "--workers=3"], "3 workers"),
        ({}, ["gunicorn", "-w", "3"], "3 workers"),
        ({}, ["gunicorn", "-w3"], "3 workers"),
        ({"GUNICORN_CMD_ARGS": "--bind=:80 --workers=5"}, [], "GUNICORN_CMD_ARGS asks for 5"),
        ({}, ["uvicorn", "--workers", "1"], ""),
        ({}, ["pytest", "-w"], ""),
    ],
)
def test_more_than_one_worker_is_seen(environment, argv, refused):
    found = join_refusal(environment, argv)
    assert (refused in found) if refused else found == ""


@pytest.mark.parametrize("query", ["shadow=ttrl,scrl", "shadow=ttrl%2Cscrl", "shadow=ttrl+scrl", "shadow=ttrl%20scrl"])
def test_shadow_methods(query):
    """Without a comma too: OpenRLHF makes two URLs of a flag with one."""
    assert openrlhf(query, SETTINGS).shadow == ("ttrl", "scrl")
    assert openrlhf("", SETTINGS).shadow == openrlhf("shadow=", SETTINGS).shadow == ()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("shadow=ttrl,nosuch", ["query.shadow", "unknown method. Known: dare"]),
        ("shadow=ttrl,ttrl", ["shadow", "different names"]),
        ("shadow=calibrated_vote", ["shadow", "without a default"]),
        ("shadow=evol_rl", ["query.shadow", "evol_rl needs embedding", "single rollouts do not carry"]),
        ("shadow=deepconf", ["query.shadow", "deepconf needs"]),
        ("shadoww=ttrl", ["Did you mean shadow"]),
    ],
)
def test_shadow_methods_that_are_none_are_refused(query, words):
    with pytest.raises(RequestError) as caught:
        openrlhf(query, SETTINGS)
    assert all(w in str(caught.value) for w in words), str(caught.value)


@pytest.mark.parametrize("method", ["cocov"])
def test_advantages_are_refused_because_they_would_be_normalised_again(method):
    for query, settings in ((f"method={method}", SETTINGS), ("", Settings(method=method))):
        with pytest.raises(RequestError, match=rf"^method: {method} returns advantages and .*OpenRLHF would normalise"):
            openrlhf(query, settings)


def test_the_url_to_paste_keeps_shadows_without_a_bare_comma():
    url = pasteable("http://host:8000/reward", "shadow=ttrl,scrl", token=False)
    assert "," not in url
    assert openrlhf(url.partition("?")[2], SETTINGS).shadow == ("ttrl", "scrl")
