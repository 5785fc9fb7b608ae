"""The plugin's switch, checks and wrapping, on stand-ins of vLLM's classes. What it computes: tests/e2e/test_vllm_entropy.py."""

import sys
import types
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import numpy as np
import pytest

from dare_trainer.openrlhf import patch
from dare_trainer.vllm import plugin
from dare_trainer.vllm.token_entropy import SWITCH, EntropyError, decode, encode


class Tensors(NamedTuple):
    logprob_token_ids: Any
    logprobs: Any
    selected_token_ranks: Any


@pytest.fixture
def vllm(monkeypatch):
    """Modules of the shape of vLLM 0.29; `entropy_torch` in NumPy."""

    class EngineArgs:
        speculative = None

        def create_engine_config(self, *args):
            return types.SimpleNamespace(speculative_config=self.speculative)

    class V1Sampler:
        def forward(self, logits, sampling_metadata, predict_bonus_token=False):
            ranks = np.ones(len(logits), np.int64)
            found = Tensors(None, None, ranks) if sampling_metadata.max_num_logprobs is not None else None
            return types.SimpleNamespace(logprobs_tensors=found)

    class V2Sampler:
        def __init__(self, count):
            temperature = types.SimpleNamespace(gpu=np.array([9.0, 0.5, 2.0]))
            counts = np.broadcast_to(count, 3)
            self.sampling_states = types.SimpleNamespace(num_logprobs=counts, temperature=temperature)

        def __call__(self, logits, input_batch):
            ranks = np.ones(len(logits), np.int64)
            return types.SimpleNamespace(logprobs_tensors=Tensors(None, None, ranks))

    def entropy(logits, temperature=None, asked=None):
        z = logits / (1.0 if temperature is None else temperature[:, None])
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        values = -(p * np.log(p)).sum(1).astype(np.float32)
        return values if asked is None else np.where(asked, values, np.nan).astype(np.float32)

    for name, content in {
        "vllm": {"__version__": "0.29.0"},
        "vllm.engine.arg_utils": {"EngineArgs": EngineArgs},
        "vllm.v1.sample.sampler": {"Sampler": V1Sampler},
        "vllm.v1.worker.gpu.sample.sampler": {"Sampler": V2Sampler},
        "dare_trainer.vllm.entropy_torch": {"entropy": entropy, "as_ranks": lambda values, dtype: encode(values)},
    }.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**content))
    monkeypatch.delitem(sys.modules, "openrlhf.utils.agent", raising=False)
    return types.SimpleNamespace(EngineArgs=EngineArgs, V1=V1Sampler, V2=V2Sampler, entropy=entropy)


LOGITS = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
BATCH = types.SimpleNamespace(idx_mapping_np=np.array([1, 2]), expanded_idx_mapping=np.array([1, 2]))


def metadata(count=0, temperature=(0.5, 1.0)):
    return types.SimpleNamespace(max_num_logprobs=count, temperature=np.array(temperature))


@pytest.fixture
def on(vllm, monkeypatch):
    """`on(mode)`: vLLM with the plugin as this mode makes it."""

    def register(mode="raw"):
        monkeypatch.setenv(SWITCH, mode)
        plugin.register()
        return vllm

    return register


def ranks_of(out):
    return out.logprobs_tensors.selected_token_ranks


def test_the_entry_point_is_ours():
    (entry,) = [e for e in entry_points(group="vllm.general_plugins") if e.name == "token_entropy"]
    assert entry.load() is patch.register


@pytest.mark.parametrize("value", ["", "off", "0", "OFF"])
def test_it_does_nothing_until_it_is_switched_on(vllm, on, value):
    before = vllm.V1.forward, vllm.V2.__call__, vllm.EngineArgs.create_engine_config
    on(value)
    assert before == (vllm.V1.forward, vllm.V2.__call__, vllm.EngineArgs.create_engine_config)


def test_a_misspelt_switch_is_an_error(on):
    with pytest.raises(RuntimeError, match="must be one of off, raw, temperature"):
        on("temperatur")


def test_turning_on_reaches_children_and_does_not_mix(monkeypatch):
    monkeypatch.delenv(SWITCH)
    plugin.turn_on("temperature")
    plugin.turn_on("temperature")
    assert plugin.mode() == "temperature"
    with pytest.raises(RuntimeError, match="must not mix"):
        plugin.turn_on("raw")


@pytest.mark.parametrize("wanted", ["raw", "temperature"])
def test_both_samplers_carry_entropies(on, wanted):
    vllm = on(wanted)
    for out, temperature in (
        (vllm.V1().forward(LOGITS, metadata()), [0.5, 1.0]),
        (vllm.V2(0)(LOGITS, BATCH), [0.5, 2.0]),
    ):
        exact = vllm.entropy(LOGITS, np.array(temperature) if wanted == "temperature" else None)
        assert decode(ranks_of(out)) == pytest.approx(exact)


def test_steps_without_log_probabilities_cost_nothing(on, monkeypatch):
    vllm = on()
    monkeypatch.setattr(plugin, "_entropy", lambda *a: pytest.fail("computed for nothing"))
    assert vllm.V1().forward(LOGITS, metadata(None)).logprobs_tensors is None
    assert ranks_of(vllm.V2(-1)(LOGITS, BATCH)).tolist() == [1, 1]


def test_the_v2_runner_reads_the_rows_that_asked(on):
    vllm = on()
    ranks = ranks_of(vllm.V2([-1, -1, 0])(LOGITS, BATCH))
    assert decode(ranks[1:]) == pytest.approx(vllm.entropy(LOGITS)[1:])
    with pytest.raises(EntropyError):
        decode(ranks[:1])


def test_rows_of_another_number_keep_their_ranks(on, monkeypatch):
    """A rejection sampler returns other rows than it was given logits for; the reader then sees genuine ranks."""
    vllm = on()
    monkeypatch.setattr(plugin, "_entropy", lambda *a: np.zeros(5, np.float32))
    assert ranks_of(vllm.V1().forward(LOGITS, metadata())).tolist() == [1, 1]


def test_registering_twice_wraps_once(on):
    once = on().V1.forward
    assert on().V1.forward is once


def test_without_a_v2_runner_the_v1_is_wrapped(on, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.gpu.sample.sampler", None)
    assert decode(ranks_of(on().V1().forward(LOGITS, metadata()))) is not None


def test_speculative_decoding_is_refused(on):
    vllm = on()
    vllm.EngineArgs().create_engine_config()
    vllm.EngineArgs.speculative = object()
    with pytest.raises(RuntimeError, match="speculative decoding gives no token entropies"):
        vllm.EngineArgs().create_engine_config()


def test_versions(on, monkeypatch, caplog):
    monkeypatch.setattr(sys.modules["vllm"], "__version__", "0.26.1")
    with pytest.raises(RuntimeError, match=r"need 0.27 or later"):
        on()
    plugin.check_version("0.29.0+cpu")
    assert not caplog.records
    plugin.check_version("0.40.0")
    assert "newer than 0.33" in caplog.text


def test_another_shape_of_vllm_is_named(vllm, on):
    del vllm.V1.forward
    with pytest.raises(RuntimeError, match="Sampler has no forward"):
        on()
