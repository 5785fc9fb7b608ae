"""The URL as configuration."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from rows import each

from dare_reward.errors import RequestError
from dare_reward.methods import methods
from dare_reward.openrlhf.url import ActorSettings, RunSettings
from dare_service.joins.url_options import minted, run_of, size_of_group
from dare_service.settings import Settings

pytestmark = pytest.mark.usefixtures("plugins")
SETTINGS = Settings()
ALL = (
    "group_size=32&run=aime%2F1&method=dare_sqrt&alpha=0.2&tau=0&pruned=neutral&missing_entropy=error&kind=choice"
    "&options=ABCDE&extra_logs=off&label_policy=eval&token=x"
)
SERVED = Settings(params='{"alpha": 0.3, "missing_entropy": "group_mean"}')
GMAE = "method=gmae&calibration=none&group_size=32"


@each(
    "query, settings, said, params",
    [
        ("", SETTINGS, {"method": "dare", "group_size": None, "run": "", "kind": "math", "extra_logs": "on", "shadow": ()},
         {"missing_entropy": "frequency"}),
        (ALL, SETTINGS, {"group_size": 32, "run": "aime/1", "method": "dare_sqrt", "kind": "choice",
                         "letters": tuple("ABCDE"), "extra_logs": "off", "label_policy": "eval"},
         {"alpha": 0.2, "tau": 0.0, "pruned": "neutral", "missing_entropy": "error", "weight": "sqrt"}),
        # The server's defaults stand between the URL and the route.
        ("", SERVED, {}, {"alpha": 0.3, "missing_entropy": "group_mean"}),
        ("alpha=0.4", SERVED, {}, {"alpha": 0.4}),
        ("method=dare_sqrt", SERVED, {}, {"alpha": 0.1}),
        *((f"kind=choice&options={o}", SETTINGS, {"letters": tuple("ABCD")}, {})
          for o in ("ABCD", "4", "A,B,C,D", "A+B+C+D")),
        # Without a comma too: OpenRLHF makes two URLs of a flag with one.
        *((f"shadow=ttrl{comma}scrl", SETTINGS, {"shadow": ("ttrl", "scrl")}, {}) for comma in (",", "%2C", "+", "%20")),
        ("shadow=", SETTINGS, {"shadow": ()}, {}),
        # Another name of a method is that method, and the service's parameters are its own.
        ("method=majority", SETTINGS, {"method": "ttrl"}, {}),
        ("", Settings(method="majority", params='{"tie": "none"}'), {"method": "ttrl"}, {"tie": "none"}),
        # `group_size` is the join's; that of gmae, the size of its sub-groups, is gmae.group_size.
        (f"{GMAE}&gmae.group_size=16", SETTINGS, {"group_size": 32}, {"group_size": 16}),
        (GMAE, SETTINGS, {"group_size": 32}, {"group_size": None}),
    ],
)  # fmt: skip
def test_what_a_url_says(query, settings, said, params):
    plain = run_of(query, settings)
    for found in (plain, ActorSettings.read(query, method=settings.method, params=settings.default_params)):
        assert {name: getattr(found, name) for name in said} == said
    assert dict(plain.params).items() >= params.items()


def test_the_token_is_no_part_of_the_configuration():
    assert run_of("run=a&token=one", SETTINGS) == run_of("run=a&token=two", SETTINGS)
    assert "secret" not in repr(run_of("run=a&token=secret", SETTINGS))


BOTH = [
    ("alhpa=0.2", "unknown parameter of the reward URL 'alhpa'. Did you mean alpha"),
    ("grup_size=8", "'grup_size'. Did you mean group_size"),
    ("shadoww=ttrl", "Did you mean shadow"),
    ("detail=full", "unknown parameter of the reward URL 'detail'"),
    ("run=a&run=b", "'run' is given twice"),
    ("run=" + "a" * 257, "query.run: must be a string of at most 256 characters"),
    ("group_size=8.5", "group_size: must be an integer >= 1"),
    ("group_size=0", "group_size: must be an integer >= 1"),
    ("alpha=2", "alpha: must be a finite number >= 0 and <= 1"),
    ("alpha=many", "alpha: must be a finite number"),
    ("weight=cube", "weight: must be one of linear, sqrt, exp, log, none"),
    ("kind=poem", "kind: must be one of math, choice, text, exact"),
    ("options=AB", "query.options: is for kind=choice"),
    ("kind=choice&options=", "options must be different capital letters"),
    ("kind=choice&options=" + "9" * 5000, "options must be different capital letters"),
    ("extra_logs=maybe", "extra_logs: must be one of on, off"),
    ("method=nosuch", "unknown method. Known: dare"),
    ("method=ddrl", "ddrl trains on a selection of rollouts.*such as ttrl"),
    ("method=cocov", "^method: cocov returns advantages and .*OpenRLHF would normalise"),
    ("method=gmae", "gmae is over all groups of a step, and OpenRLHF scores one group a call.*calibration=none"),
    ("method=evol_rl", "query.method: evol_rl needs embedding, which OpenRLHF's rollouts do not carry"),
    ("method=deepconf", r"query.method: deepconf needs confidence\|topk_logprobs"),
    ("shadow=ttrl,nosuch", "query.shadow: unknown method. Known: dare"),
    ("shadow=ttrl,ttrl", "shadow: must be different names"),
    ("shadow=calibrated_vote", "shadow: .*without a default"),
    ("shadow=evol_rl", "query.shadow: evol_rl needs embedding"),
]
PLAIN = [
    ("certainty=answer_probability", "query.method: dare needs answer_logprob"),
    ("votes_per_prompt=64", "is done in the rollout actor, .*install dare-reward on the rollout nodes"),
    ("method=evol_rl", "install dare-reward on the rollout nodes"),
]
ACTOR = [
    ("votes_per_promt=64", "Did you mean votes_per_prompt"),
    ("pruned=gone", "pruned: must be one of zero, neutral, mask"),
    ("labelled=gt", "labelled=gt: dare rewards by shares, where gt rewards by 0 and 1: choose calibrated_vote"),
    ("adaptive=auto", "votes_per_prompt, which is not set"),
    ("adaptive=auto&votes_per_prompt=8", "dare may pay another one.*that pays it: ttrl"),
    ("adaptive=rule%3Drewards&votes_per_prompt=8", "unknown parameter"),
    ("adaptive=wave%3D4%26speed%3D2&votes_per_prompt=8", "unknown parameter"),
]


@each(
    "settings, query, words",
    [
        *((settings, *row) for settings in (RunSettings, ActorSettings) for row in BOTH),
        *((RunSettings, *row) for row in PLAIN),
        *((ActorSettings, *row) for row in ACTOR),
    ],
)
def test_what_is_wrong_is_named_with_what_is_accepted(settings, query, words):
    with pytest.raises(RequestError, match=words) as caught:
        settings.read(query)
    assert str(caught.value).startswith(("query", "method", "shadow", "labelled", "adaptive", "params"))


def test_what_the_server_sets_is_checked_too():
    with pytest.raises(RequestError, match=r"at most 1024 \(DARE_MAX_ROLLOUTS\)"):
        run_of("group_size=4096", SETTINGS)
    with pytest.raises(RequestError, match=r"^method: cocov returns advantages"):
        run_of("", Settings(method="cocov"))


def test_methods_that_need_more_than_single_rollouts_carry_are_refused_by_name(needed_params):
    carried = {"answer", "mean_entropy", "label"}
    for method in methods().values():
        if set(method.requires) <= carried and method.output == "rewards" and not method.selects:
            alone = {"calibration": "none"} if method.whole_batch else {}
            query = urlencode({"method": method.name, **needed_params(method.name), **alone})
            assert run_of(query, SETTINGS).method == method.name
        else:
            with pytest.raises(RequestError, match=method.name):
                run_of(f"method={method.name}", SETTINGS)


def test_a_parameter_of_the_urls_own_name_is_the_methods_by_its_name():
    """As `group_size`, which is the join's."""
    own = {*RunSettings.specs(), "token", "detail"}
    both = {(m.name, s.name) for m in methods().values() for s in m.specs if s.name in own}
    assert both == {("gmae", "group_size")}


def test_the_minted_url_is_checked_and_holds_a_name_that_no_other_job_has():
    query = "group_size=8&alpha=0.2&shadow=ttrl,scrl&token=hush"
    urls = [minted(query, "http://host:8000", SETTINGS) for _ in range(2)]
    assert urls[0] != urls[1]
    for url in urls:
        address, _, said = url.partition("?")
        assert address == "http://host:8000/reward"
        assert not {",", " "} & set(url), "OpenRLHF splits its flag at commas"
        assert "hush" not in url
        found = run_of(said, SETTINGS)
        assert (found.group_size, dict(found.params)["alpha"], found.shadow) == (8, 0.2, ("ttrl", "scrl"))
        assert size_of_group(found, SETTINGS, str) == 8
    assert "run=mine-123456789" in minted("group_size=8&run=mine-123456789", "http://h", SETTINGS)
    _, _, said = minted("group_size=8&run=a%2Bb,c-123456789", "http://h", SETTINGS).partition("?")
    assert run_of(said, SETTINGS).run == "a+b,c-123456789"


@each(
    "query, host, words",
    [
        ("alhpa=1&group_size=8", "h", "Did you mean alpha"),
        ("alpha=1", "h", "add group_size"),
        ("group_size=8&run=a", "h", "nine digits or a UUID"),
        ("group_size=8", "a,b", "^Host: holds a comma"),
    ],
)
def test_what_cannot_be_minted_is_refused_with_the_reason(query, host, words):
    with pytest.raises(RequestError, match=words):
        minted(query, f"http://{host}", SETTINGS)
