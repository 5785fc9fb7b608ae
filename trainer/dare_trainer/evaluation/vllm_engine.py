"""Rollouts with exact token entropies from one vLLM engine, which lives and ends in this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from dare_reward.errors import ConfigError
from dare_reward.openrlhf import AnswerRules
from dare_reward.scoring.array_inputs import without_tokens
from dare_reward.stacks.rollout import answer_tokens

from ..launch.questions import LabelledQuestion
from ..vllm.plugin import turn_on
from ..vllm.token_entropy import token_arrays, token_entropies
from .rollout_file import MeasurePlan, Want

JSON = dict[str, Any]
SEQUENCES: Final = 256  # that vLLM runs at a time, unless --engine max_num_seqs says another number


class Engine:
    """A loaded model. What vLLM logs goes to the error stream."""

    def __init__(self, plan: MeasurePlan, settings: Mapping[str, Any]) -> None:
        """ConfigError without vLLM, or for a model that has no chat template."""
        # The engine's core runs in this process: one of its own would live on where this one is ended, and burn a core.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # the output holds the verdict alone
        try:
            self._vllm = import_module("vllm")
        except ModuleNotFoundError:
            raise ConfigError(
                "measure needs vLLM or --url; run pip install '.[trainer]' in your checkout, or name an endpoint"
            ) from None
        turn_on("temperature")
        alone = {"distributed_executor_backend": "uni"} if settings.get("tensor_parallel_size", 1) == 1 else {}
        self.plan, self.settings = plan, {"seed": plan.seed, **alone, **settings}
        self._known = {
            "entropy_source": "exact",
            "entropy_mode": "temperature",
            "temperature": plan.temperature,
            "top_p": plan.top_p,
            "logprobs_mode": settings.get("logprobs_mode", "raw_logprobs"),  # vLLM's default
        }
        self._llm = self._vllm.LLM(model=plan.model, **self.settings)
        self._tokenizer = self._llm.get_tokenizer()
        if plan.chat and getattr(self._tokenizer, "chat_template", None) is None:
            raise ConfigError(f"{plan.model} has no chat template: add --no-chat")

    def sample(self, wants: Sequence[Want], take: Callable[[JSON], None]) -> None:
        """`take` gets what each problem lacked, as soon as all of it is there. A cut costs what the engine computes
        then.

        The engine stays full: it begins the next problems while the long rollouts of earlier ones go on.
        """
        engine, most = self._llm.llm_engine, 2 * int(self.settings.get("max_num_seqs", SEQUENCES))
        waiting = deque((w, greedy) for w in wants for greedy in w.parts)
        running: dict[str, tuple[Want, bool]] = {}
        made: dict[str, dict[bool, list[JSON]]] = {w.problem.id: {} for w in wants}
        while waiting or running:
            while waiting and engine.get_num_unfinished_requests() < most:
                want, greedy = waiting.popleft()
                running[name := str(len(waiting))] = want, greedy
                engine.add_request(name, self._prompt(want.problem), self._sampling(want, greedy))
            for output in [output for output in engine.step() if output.finished]:
                want, greedy = running.pop(output.request_id)
                problem, parts = want.problem, made[want.problem.id]
                parts[greedy] = [self._rollout(completion, problem) for completion in output.outputs]
                if len(parts) == len(want.parts):
                    del made[problem.id]
                    many, alone = parts.get(False, []), next(iter(parts.get(True, [])), None)
                    take(problem.group(many, alone, as_is=self.plan.as_is, **self._known))

    def _prompt(self, problem: LabelledQuestion) -> JSON:
        """A prompt as vLLM takes it: the tokens of what the model is sent."""
        text, chat = self.plan.sent(problem), self.plan.chat
        if chat:
            talk = [{"role": "user", "content": text}]
            text = self._tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        return {"prompt_token_ids": self._tokenizer.encode(text, add_special_tokens=not chat)}

    def _sampling(self, want: Want, greedy: bool) -> Any:
        return self._vllm.SamplingParams(
            n=1 if greedy else want.rollouts,
            temperature=0.0 if greedy else self.plan.temperature,
            top_p=1.0 if greedy else self.plan.top_p,
            max_tokens=self.plan.max_tokens,
            stop=list(self.plan.stop),
            logprobs=0,  # what the entropies ride on
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )

    def _rollout(self, completion: Any, problem: LabelledQuestion) -> JSON:
        """Text, and what is known of its tokens: these, or their means and sums. Without a token there is no entropy
        and no answer."""
        rollout: JSON = {"text": completion.text, "finish_reason": completion.finish_reason}
        asks, ids = problem.asks(as_is=self.plan.as_is), list(completion.token_ids)
        rules = AnswerRules({}, problem.kind, asks.get("options"), prompt=asks["prompt"])
        answer, _ = answer_tokens(rollout, ids, tokenizer=self._tokenizer, rules=rules)
        tokens = token_arrays(completion, token_entropies(completion), answer)
        if not self.plan.tokens:
            return rollout | {"num_tokens": len(ids), **without_tokens(tokens)}
        return rollout | {k: np.round(v, 6).tolist() if isinstance(v, np.ndarray) else v for k, v in tokens.items()}
