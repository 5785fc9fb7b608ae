"""slime: `--group-rm --custom-rm-path dare_reward.stacks.slime.reward --rm-url 'http://127.0.0.1:8000?method=dare'`.

slime hands over one group and the log-probabilities of its sampled tokens; entropies exist only later, in the actor.

Advantages and selections need the whole step: `--custom-reward-post-process-path dare_reward.stacks.slime.advantages`
with `&advantage=...` (and `&selection=...`) in the URL. Groups that carry nothing are sampled again with
`--dynamic-sampling-filter-path dare_reward.stacks.slime.dynamic_filter`.

`&adaptive=auto&votes=64` in the URL generates further rollouts that only vote, in waves, while those so far do not
suffice (docs/stopping.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from ..errors import ConfigError, RequestError
from ..inputs import Group
from ..methods import find, require_every_rollout, require_steps
from ..params import query_texts
from ..votes import Waves, require_ballots
from .adapter import Scorer, groups_by, require_complete, zero_dropped
from .report import logger, shadow_numbers
from .rollout import label_of, prompt_text

POST_PROCESS: Final = "dare_reward.stacks.slime.advantages"
VOTING: Final = ("adaptive", "votes")
# What the router is told of sampling, and slime's arguments `rollout_...` that say it.
SAMPLING: Final = {
    **{name: name for name in ("temperature", "top_p", "top_k", "stop", "stop_token_ids", "skip_special_tokens")},
    "max_new_tokens": "max_response_len",
}
DROP: Final = "dare_drop"  # in a sample's metadata


async def reward(args: Any, samples: Any, **_: Any) -> list[float]:
    """One reward per sample of one group, in order; equal ones for a group that is to be dropped."""
    if not isinstance(samples, Sequence) or any(isinstance(s, Sequence) for s in samples):
        raise RequestError(
            "slime called the reward without a whole group of samples: add --group-rm, and no generation that fans out"
        )
    if len({s.group_index for s in samples}) > 1:
        raise RequestError("slime called the reward with samples of several groups; one is expected")
    scorer, waves = _of_group(args), _waves(args)
    added, facts = list[dict[str, Any]](), dict[str, float]()
    if waves is not None:
        added, facts = await _more_votes(args, samples, partial(_group, args, scorer, samples), scorer, waves)
    one = _group(args, scorer, samples, added)
    scores, reply = await scorer.score_async([one])
    facts |= {f"dare/{name}": value for name, value in shadow_numbers(reply, [one]).items()}
    (rewards,) = zero_dropped(scores, reply, 0.0)
    for sample in samples:
        known = getattr(sample, "metadata", None) or {}
        sample.metadata = {**known, **facts, DROP: reply and reply.groups[0].drop}
    return require_complete(rewards[: len(samples)])


def advantages(args: Any, samples: Sequence[Any], **_: Any) -> tuple[list[float], list[float]]:
    """Rewards and advantages of all samples of a step, which slime then takes as they are.

    A sample that is not selected, or of a group that carries nothing, has advantage 0; what is not selected is removed
    from the loss (`remove_sample`).
    """
    scorer, _ = _parsed(_url(args))
    if "advantage" not in dict(scorer.update):
        raise ConfigError(f"{POST_PROCESS} needs advantage=... in --rm-url, such as advantage=gmae with method=gmae")
    members = groups_by(s.group_index for s in samples)
    sent = [_group(args, scorer, [samples[i] for i in at]) for at in members.values()]
    scores, reply = scorer.score(sent)
    rewards, gains = [0.0] * len(samples), [0.0] * len(samples)
    if reply is None:  # on_error=zero
        return rewards, gains
    for at, of_group, one in zip(members.values(), scores, reply.groups, strict=True):
        for place, i in enumerate(at):
            rewards[i] = of_group[place] or 0.0
            if one.advantages is not None and one.drop is None:
                gains[i] = one.advantages[place] or 0.0
            if one.select is not None and place not in one.select:
                samples[i].remove_sample = True
    return rewards, gains


def dynamic_filter(args: Any, samples: Any, **_: Any) -> Any:
    """Whether the group is kept: the `drop` of the reply that its rewards came from."""
    flat = [one for s in samples for one in (s if isinstance(s, Sequence) else [s])]
    reason = next((s.metadata[DROP] for s in flat if (s.metadata or {}).get(DROP)), None)
    try:
        from slime.rollout.filter_hub.base_types import DynamicFilterOutput
    except ImportError:  # older slimes take a bool
        return reason is None
    return DynamicFilterOutput(keep=reason is None, reason=reason)


def _of_group(args: Any) -> Scorer:
    """What scores a group by itself. Its advantages and its line of the run log come later, from the whole step."""
    scorer, _ = _parsed(_url(args))
    process = getattr(args, "custom_reward_post_process_path", None)
    later = [name for name, _ in scorer.update if name != "settled"]
    if later and process != POST_PROCESS:
        raise ConfigError(
            f"slime takes {', '.join(sorted(later))} from a whole step: add --custom-reward-post-process-path "
            f"{POST_PROCESS}"
        )
    if later:
        return scorer.alone()
    if process != POST_PROCESS:
        remedy = f"add --custom-reward-post-process-path {POST_PROCESS}, with advantage=... in --rm-url"
        require_every_rollout(find(scorer.method), consumer="slime without a post-process", remedy=remedy)
    if process and process != POST_PROCESS:
        scorer.check_scale(process, divides=None, remedy=f"let it only centre them, or use {POST_PROCESS}")
    estimator = getattr(args, "advantage_estimator", "")
    divides = estimator in {"grpo", "gspo"} and bool(getattr(args, "grpo_std_normalization", False))
    scorer.check_scale(
        "slime", divides=divides and not process, remedy=f"pass --disable-grpo-std-normalization, or use {POST_PROCESS}"
    )
    method = find(scorer.method)
    own = {s.name for s in method.specs}  # without the parameters of the answers
    require_steps(method, method.resolve({k: v for k, v in scorer.params if k in own}), consumer="slime")
    return scorer


def _waves(args: Any) -> Waves | None:
    """How votes are asked for beside the samples: `&adaptive=auto&votes=64` in --rm-url."""
    scorer, asked = _parsed(_url(args))
    if not asked:
        return None
    process = getattr(args, "custom_reward_post_process_path", None)
    alike = "with --sglang-enable-deterministic-inference all votes of a prompt would be one text"
    others = "votes are plain continuations of the prompt, and --custom-generate-function-path makes others"
    for holds, why in (
        (process == POST_PROCESS, f"{POST_PROCESS} sees the samples of a step and none of their votes"),
        (getattr(args, "sglang_enable_deterministic_inference", False), alike),
        (getattr(args, "custom_generate_function_path", None), others),
    ):
        if holds:
            raise ConfigError(f"{why}: leave out adaptive and votes")
    if not asked.get("votes", "").isdecimal():
        raise ConfigError("adaptive needs votes=..., the rollouts of a prompt that vote in full, in --rm-url")
    waves = Waves.read(asked.get("adaptive", ""), votes=int(asked["votes"]))
    require_ballots(find(scorer.method))
    return waves


def _url(args: Any) -> str:
    url = getattr(args, "rm_url", None)
    if not url:
        raise RequestError("slime needs --rm-url with the address of the reward service")
    return str(url)


@cache
def _parsed(url: str) -> tuple[Scorer, dict[str, str]]:
    """What scores, and what only slime's votes need."""
    parts = urlsplit(url)
    texts = query_texts(parts.query)
    voting = {name: text for name in VOTING if (text := texts.pop(name, ""))}
    scored = urlunsplit(parts._replace(query=urlencode(texts)))
    return Scorer.of(scored).require_supported("slime", lacks={"gaps", "masks"}), voting


def _group(args: Any, scorer: Scorer, samples: Sequence[Any], votes: Sequence[dict[str, Any]] = ()) -> Group:
    rows = [*(_rollout(args, s) for s in samples), *votes]
    decoded = any(row.get("token_ids") and not row.keys() & {"text", "answer"} for row in rows)
    tokenizer = _tokenizer_of(args) if decoded or scorer.reads_answers else None
    labels = [label_of(s.label, scorer.kind) for s in samples]
    prompt = prompt_text(samples[0].prompt)
    return scorer.group(str(samples[0].group_index), rows, tokenizer=tokenizer, labels=labels, prompt=prompt)


def _rollout(args: Any, sample: Any) -> dict[str, Any]:
    """A sample that was aborted or failed has no vote.

    slime masks what the environment said, which is no text of the policy, and on request what an earlier policy said,
    which is a part of the text all the same.
    """
    status, mask = sample.status.value, sample.loss_mask
    count = max(int(sample.response_length), len(sample.rollout_log_probs or ()))
    row = {
        "id": str(sample.index),
        "finish_reason": "length" if status == "truncated" else "stop",
        "logprobs": sample.rollout_log_probs,
        "token_ids": list(sample.tokens)[-count:] if count else None,
        "trained": not sample.remove_sample,
    }
    by_policy = bool(getattr(args, "mask_offpolicy_in_partial_rollout", False))
    if mask is not None and (any(mask) or not by_policy):
        row["token_mask"] = mask
    if status in {"aborted", "failed"}:
        return row | {"answer": None}
    told = mask is not None and not all(mask) and not by_policy  # by the environment
    return row if told and row["token_ids"] else row | {"text": sample.response}


# --- rollouts that only vote, generated by slime's own router while the votes do not suffice (docs/stopping.md) ------
#
# slime's generation sees one sample at a time; the whole group is together in the reward function, which is
# asynchronous and may ask the router for more.


async def _more_votes(
    args: Any,
    samples: Sequence[Any],
    group_of: Callable[[Sequence[dict[str, Any]]], Group],
    scorer: Scorer,
    waves: Waves,
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Votes beside the samples of one group, and what was saved at which risk. `group_of` is the group with votes."""
    if waves.votes < len(samples):
        raise ConfigError(
            f"votes={waves.votes} of {len(samples)} samples: votes is the number in full, samples included"
        )
    _check_plain(samples)
    added: list[dict[str, Any]] = []
    asked, risk = len(samples), 0.0
    prompt = _prompt(samples[0])
    while asked < waves.votes:
        wanted = await asyncio.to_thread(scorer.votes_suffice, group_of(added), waves)
        risk = wanted.risk
        if not wanted.more:
            break
        more = min(wanted.more, waves.votes - asked)
        asked += more
        wave = await asyncio.gather(*(_vote(args, prompt) for _ in range(more)), return_exceptions=True)
        lost = [x for x in wave if isinstance(x, Exception)]
        if lost:
            logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), more, lost[0])
        added += [x for x in wave if isinstance(x, dict)]
    saved = waves.votes - asked
    return added, {"dare_votes_saved": float(saved), "dare_settle_risk": risk if saved else 0.0}


def _check_plain(samples: Sequence[Any]) -> None:
    """ConfigError for samples that are more than a continuation of their prompt's tokens: votes would be others."""
    for sample in samples:
        pictures = getattr(sample, "multimodal_inputs", None) or {}
        if any(value is not None for value in pictures.values()) or getattr(sample, "generate_function_path", None):
            raise ConfigError(
                "votes are plain continuations of the prompt's tokens, and these samples have pictures or a generation "
                "of their own: leave out adaptive and votes"
            )


def _tokenizer_of(args: Any) -> Any:
    """slime's own, which its process of rollouts holds once."""
    from slime.rollout.sglang_rollout import GenerateState

    return GenerateState(args).tokenizer


async def _vote(args: Any, prompt: list[int]) -> dict[str, Any]:
    """A rollout that only votes, sampled as slime samples those that it trains on."""
    from slime.utils.http_utils import post  # its own way to its router, with its connections and retries

    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    sampling = {name: getattr(args, f"rollout_{own}") for name, own in SAMPLING.items()}
    sampling |= {"no_stop_trim": True, "spaces_between_special_tokens": False}
    reply = await post(url, {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True})
    ended, entries = reply["meta_info"]["finish_reason"]["type"], reply["meta_info"].get("output_token_logprobs")
    if ended == "abort":
        raise RequestError("the router aborted a vote")
    row = {"text": reply["text"], "finish_reason": "length" if ended == "length" else "stop", "trained": False}
    said = {"logprobs": [e[0] for e in entries], "token_ids": [int(e[1]) for e in entries]} if entries else {}
    return row | said


def _prompt(sample: Any) -> list[int]:
    """The prompt's tokens: those of the sample before its response."""
    tokens = list(sample.tokens or ())
    prompt = tokens[: len(tokens) - int(sample.response_length)]
    if not prompt:
        raise RequestError("slime's sample has no tokens of its prompt, so no votes can be generated for it")
    return prompt
