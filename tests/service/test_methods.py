"""What requests may ask for beside a method: advantages, shadows, seeds."""

import pytest

from dare_reward.methods import methods

pytestmark = pytest.mark.usefixtures("plugins")


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("/reward?shadow=ttrl,nosuch", "shadow: unknown method"),
        ("/reward?advantage=nosuch", "unknown advantage"),
        ("/reward?seed=-1", "seed"),
        ("/reward?method=cocov&advantage=grpo", "normalise"),
        ("/reward?method=guess", "allow_experimental"),
        ("/reward?shadow=guess", "allow_experimental"),
        ("/reward?method=scope&seed=1&seed=2", "twice"),
    ],
)
def test_what_is_refused(plugin, service, full_groups, url, word):
    response = service.post({"groups": full_groups(count=1)}, url)
    assert response.status_code == 422
    assert word in response.json()["detail"]


@pytest.mark.parametrize("name", ["groups", "method", "columns", "limits", "advantage", "shadow", "seed", "params"])
def test_parameters_with_names_of_ours_are_unknown(service, full_groups, name):
    response = service.post({"method": "ttrl", "params": {name: 1}, "groups": full_groups(count=1)})
    assert response.status_code == 422
    assert "unknown parameter" in response.json()["detail"]


def test_a_seed_is_a_parameter_or_of_the_request(service, full_groups):
    sent = full_groups(count=2)
    one = service.post({"method": "scope", "params": {"seed": 5}, "groups": sent}).json()
    assert one["groups"] == service.post({"method": "scope", "seed": 5, "groups": sent}).json()["groups"]
    both = service.post({"method": "scope", "seed": 5, "params": {"seed": 5}, "groups": sent})
    assert both.status_code == 422


def test_experimental_methods_by_url(plugin, service, full_groups):
    response = service.post({"groups": full_groups()}, "/reward?method=guess&allow_experimental=true")
    assert response.status_code == 200
    assert response.json()["method"] == "guess"


def test_methods_lists_what_people_choose_by(plugin, service):
    listed = {m["name"]: m for m in service.get("/methods").json()["methods"]}
    assert listed.keys() == methods().keys()
    for name, entry in listed.items():
        assert entry["evidence"], name
        assert entry["cost"], name
        consent = [p for p in entry["parameters"] if p["name"] == "allow_experimental"]
        assert bool(consent) == (entry["evidence"] == "experimental")
    assert {name: listed[name]["offered"] for name in ("gmae", "rlpr")} == {"gmae": True, "rlpr": False}
    assert listed["gmae"]["advantages"]
    alpha = next(p for p in listed["dare"]["parameters"] if p["name"] == "alpha")
    assert (alpha["default"], alpha["accepts"]) == (0.1, "a finite number >= 0 and <= 1")
    assert "Eq. 13" in alpha["source"]
    assert listed["dare"]["requires"] == ["answer", "mean_entropy"]
    assert {"input": "format", "when": "format_coefficient > 0"} in listed["rlpr"]["requires_when"]


def test_the_group_says_that_embeddings_are_missing(service):
    sent = [{"rollouts": [{"text": "so \\boxed{1}"}] * 2}]
    group = service.post({"method": "evol_rl", "groups": sent}).json()["groups"][0]
    assert group["error"]["code"] == "missing_input"
    assert "embedding" in group["error"]["message"]
