"""The plugin on a real vLLM engine: exact to 1e-4 against transformers in float32, with both model runners."""

import json
from pathlib import Path

import numpy as np
import pytest
from by_path import run

from dare_reward.topk_entropy import bounds

pytestmark = pytest.mark.openrlhf_loop
HERE = Path(__file__).parent / "openrlhf"
GENERATE = HERE / "generate.py"


def compare(model, folder, options, mode, **environment):
    """(plugin, reference) entropies of all tokens, and the generator's output."""
    made, scored = folder / "made.json", folder / "scored.json"
    run(GENERATE, model, made, json.dumps(options), VLLM_TOKEN_ENTROPY=mode, **environment)
    run(HERE / "rescore.py", model, made, scored, options["temperature"] if mode == "temperature" else 1.0)
    generated, reference = json.loads(made.read_text()), json.loads(scored.read_text())
    assert all(isinstance(r["entropies"], list) for r in generated["rows"]), generated["rows"][0]["entropies"]
    assert all(len(r["entropies"]) == len(r["ids"]) == options["tokens"] for r in generated["rows"])
    flat = np.concatenate([r["entropies"] for r in generated["rows"]]), np.concatenate(reference["rows"])
    return flat, generated, reference


@pytest.fixture(scope="module")
def plain(tiny, tmp_path_factory):
    """One engine at temperature 1 for the tests that need nothing else, with the top 20 candidates of each token."""
    options = {"n": 16, "tokens": 64, "temperature": 1.0, "topk": True}
    return compare(tiny, tmp_path_factory.mktemp("plain"), options, "raw")


@pytest.mark.parametrize(("mode", "temperature"), [("raw", 1.0), ("raw", 0.6), ("temperature", 0.6)])
def test_the_v1_runner_is_exact(tiny, tmp_path, plain, mode, temperature):
    options = {"n": 16, "tokens": 64, "temperature": temperature}
    (found, wanted), *_ = plain if temperature == 1.0 else compare(tiny, tmp_path, options, mode)
    print(
        f"\nV1 {mode} T={temperature}: {len(found)} tokens, mean {wanted.mean():.4f}, largest error {abs(found - wanted).max():.2e}"
    )
    assert abs(found - wanted).max() < 1e-4
    assert wanted.std() > 0.1  # the comparison would be empty if all entropies were alike


def test_the_v2_runner_is_exact(tiny, tmp_path, v2_runner):
    for mode in ("raw", "temperature"):
        options = {"n": 2, "tokens": 12, "temperature": 0.7}
        (found, wanted), *_ = compare(tiny, tmp_path, options, mode, **v2_runner)
        print(f"\nV2 {mode}: {len(found)} tokens, largest error {abs(found - wanted).max():.2e}")
        assert abs(found - wanted).max() < 1e-4


def test_topk_bounds_hold_on_every_token(plain):
    _, generated, reference = plain
    top = np.array([lp for row in generated["topk"] for lp in row["logprobs"]])
    exact = np.concatenate(reference["topk"])
    b = bounds(top, generated["vocabulary"])
    print(
        f"\ntop-20 of {len(exact)} tokens: width p90 {np.quantile(b.upper - b.lower, 0.9):.3f}, estimate mean error {np.mean(b.estimate - exact):+.4f}"
    )
    assert ((b.lower - 1e-4 <= exact) & (exact <= b.upper + 1e-4)).all()


def test_without_the_switch_ranks_stay_ranks(tiny, tmp_path):
    options = {"n": 2, "tokens": 4, "temperature": 1.0}
    run(GENERATE, tiny, tmp_path / "made.json", json.dumps(options), VLLM_TOKEN_ENTROPY="off")
    rows = json.loads((tmp_path / "made.json").read_text())["rows"]
    assert all("plugin is not active" in r["entropies"] for r in rows)


def test_speculative_decoding_is_refused(tiny, tmp_path):
    options = {"n": 2, "tokens": 4, "temperature": 1.0}
    options["engine"] = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}}
    with pytest.raises(AssertionError, match="speculative decoding gives no token entropies"):
        run(GENERATE, tiny, tmp_path / "made.json", json.dumps(options), VLLM_TOKEN_ENTROPY="raw")
