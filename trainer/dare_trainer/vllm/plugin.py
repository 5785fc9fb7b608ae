"""The vLLM general plugin: full-vocabulary token entropies from the sampler, in the log-probabilities' rank column.

vLLM loads every general plugin of its environment in the front end, the engine core and each worker. This one does
nothing until it is switched on: by `VLLM_TOKEN_ENTROPY=raw|temperature` before the engine starts, or in a
running engine by `switch_on` (`openrlhf.group`). Then both samplers are wrapped, that of the V1
and that of the V2 model runner:

    raw          entropy of softmax(logits), before temperature, penalties, masks and truncation
    temperature  entropy of softmax(logits / T), T the request's temperature: the sampled policy, as trainers have it

It acts on steps in which a request asks for log-probabilities (`SamplingParams(logprobs=0)` is enough): with the V2
runner on the rows that asked, with V1 on all rows, because its sampler is not told which request a row belongs to. So
while it is on, genuine ranks of sampled tokens are not to be had in this engine. Not covered, and refused at start:
speculative decoding, whose rejection sampler builds its own log-probabilities. `prompt_logprobs` keep genuine ranks.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from importlib import import_module
from typing import Any, Final, cast

from .token_entropy import MODES, SWITCH, Mode

logger = logging.getLogger("dare_trainer.vllm")

FIRST: Final = (0, 27)  # samplers and log-probability tensors have the same shape from here on
LAST: Final = (0, 33)  # the newest whose sources were read
MARK: Final = "_dare_token_entropy"


class PluginError(RuntimeError):
    """The plugin cannot do its work in this vLLM; starting anyway would train on wrong numbers."""


def register() -> None:
    """What vLLM calls in each of its processes. Inert unless switched on."""
    if wanted := mode():
        patch(wanted)


def switch_on(worker: Any, wanted: Mode) -> None:
    """In a worker of a running engine: `collective_rpc(switch_on, args=(mode,))`."""
    _checked(getattr(worker, "vllm_config", None))
    turn_on(wanted)
    patch(wanted)


def mode(environment: Any = os.environ) -> Mode | None:
    """What `VLLM_TOKEN_ENTROPY` says: None for off."""
    value = environment.get(SWITCH, "").strip().lower()
    if value in {"", "off", "0"}:
        return None
    if value not in MODES:
        raise PluginError(f"{SWITCH}={value!r}: must be one of off, {', '.join(MODES)}")
    return cast("Mode", value)


def turn_on(wanted: Mode) -> None:
    """Switch on for the engine that this process is about to start; its core and workers inherit the environment."""
    before = mode()
    if before not in {None, wanted}:
        raise PluginError(f"{SWITCH}={before} is set, and {wanted} is wanted: entropies of two kinds must not mix")
    os.environ[SWITCH] = wanted


def patch(wanted: Mode) -> None:
    """Wrap what samples and what builds the configuration. Repeating it does nothing."""
    check_version(import_module("vllm").__version__)
    _wrap(import_module("vllm.engine.arg_utils").EngineArgs, "create_engine_config", _refuse_speculation)
    _wrap(import_module("vllm.v1.sample.sampler").Sampler, "forward", functools.partial(_v1_forward, wanted))
    try:
        sampler = import_module("vllm.v1.worker.gpu.sample.sampler").Sampler
    except ImportError:  # an older vLLM, or no Triton: there is only the V1 runner
        logger.debug("vLLM has no V2 model runner here")
    else:
        _wrap(sampler, "__call__", functools.partial(_v2_call, wanted))
    logger.info("token entropies are on (%s)", wanted)


def check_version(version: str) -> None:
    """PluginError below the first version that has what is wrapped; a warning above the last one that was read."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < FIRST:
        raise PluginError(
            f"vLLM {version}: token entropies need {FIRST[0]}.{FIRST[1]} or later. Unset {SWITCH}, or use entropy=topk"
        )
    if numbers > LAST:
        logger.warning("vLLM %s is newer than %d.%d, the newest that this plugin was checked with", version, *LAST)


def _wrap(owner: Any, name: str, make: Any) -> None:
    original = getattr(owner, name, None)
    if original is None:
        raise PluginError(f"this vLLM's {owner.__module__}.{owner.__qualname__} has no {name}: it is not supported yet")
    if not getattr(original, MARK, False):
        wrapped = functools.wraps(original)(make(original))
        setattr(wrapped, MARK, True)
        setattr(owner, name, wrapped)


def _refuse_speculation(original: Any) -> Any:
    def create_engine_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _checked(original(self, *args, **kwargs))

    return create_engine_config


def _checked(config: Any) -> Any:
    if getattr(config, "speculative_config", None) is not None:
        raise PluginError(f"speculative decoding gives no token entropies: turn it off, or unset {SWITCH}")
    return config


def _v1_forward(wanted: Mode, original: Any) -> Any:
    def forward(self: Any, logits: Any, sampling_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        values = None
        count = sampling_metadata.max_num_logprobs
        if count is not None and count >= 0:
            values = _entropy(logits, sampling_metadata.temperature if wanted == "temperature" else None)
        return _carry(original(self, logits, sampling_metadata, *args, **kwargs), values)

    return forward


def _v2_call(wanted: Mode, original: Any) -> Any:
    def call(self: Any, logits: Any, input_batch: Any, *args: Any, **kwargs: Any) -> Any:
        values, temperature = None, None
        asked = self.sampling_states.num_logprobs[input_batch.idx_mapping_np] >= 0
        if asked.any():
            if wanted == "temperature":
                temperature = self.sampling_states.temperature.gpu[input_batch.expanded_idx_mapping]
            values = _entropy(logits, temperature, None if asked.all() or len(asked) != len(logits) else asked)
        return _carry(original(self, logits, input_batch, *args, **kwargs), values)

    return call


def _entropy(logits: Any, temperature: Any, asked: Any = None) -> Any:
    return import_module(".entropy_torch", __package__).entropy(logits, temperature, asked)


def _carry(output: Any, values: Any) -> Any:
    """Put the entropies where the ranks are. Where the shapes disagree the ranks stay, and the reader will say so."""
    tensors = output.logprobs_tensors
    if values is not None and tensors is not None and tensors.selected_token_ranks.shape == values.shape:
        ranks = import_module(".entropy_torch", __package__).as_ranks(values, tensors.selected_token_ranks.dtype)
        output.logprobs_tensors = tensors._replace(selected_token_ranks=ranks)
    return output
