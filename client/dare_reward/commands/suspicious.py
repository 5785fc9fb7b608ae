"""What makes a group worth a look: signs that its vote, its answers or its entropies are not what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dare_reward.answers.unanswered import Unanswered
from dare_reward.numbers import majority
from dare_reward.reply import GroupReply

from .tables import short_answer

SCATTERED = 0.2  # the most voted answer has a smaller share of the rollouts
FLAGS: Final[Mapping[str, str]] = {
    "all_invalid": "no rollout has an answer: all rewards are 0",
    "all_pruned": "no answer reached tau; on_all_pruned says what then",
    "single_answer": "all answers agree",
    "tie": "several answers have the most votes",
    "zero_variance": "all rewards are equal: group-normalised advantages are 0",
    "low_entropy": "an answer's uncertainty is below 0.02 nats: a repetition loop looks like this",
    "u_gt_1": "an answer's uncertainty is above 1 nat, where 1 - u would be negative; u_norm says what then",
    "guessed_answer": "an answer is the last number or letter of a text that announces none (unmarked=number)",
    "same_value_apart": "answers of one value were not merged, because the group holds several units or names of it; "
    "-p units=ignore and -p names=ignore merge such answers",
    "label_conflict": "the labels of its rollouts contradict each other: it has none, and gt refuses it",
    "partial": "fewer rollouts than group_size came: the reward is estimated from these",
    "neutral": "half of group_size or fewer came: all rewards are equal",
    "missing_entropy_imputed": "missing entropies were filled with the group's mean",
    "missing_entropy_frequency": "entropies are missing: the group was scored by votes alone",
    "no_answer_label": "the rollouts without an answer won the vote",
    "no_positive": "no answer leads clearly enough for a positive label",
    "few_valid": "fewer than two rollouts are valid: all rewards are -1",
    "no_common_answer": "the two groups have no answer in common: all rewards are 0",
    "penalised": "the leading answer has too few votes: all advantages are the penalty",
    "verified_label": "the votes scatter: self-verifications chose the label",
    "no_label": "there is no label: all advantages are 0",
    "unanimous": "every rollout has one answer: fixed advantages are +1 for all that are selected",
    "positive_negatives": "so many rollouts have the leading answer that some of the least frequent do: they get +1",
    "tied_positives": "several answers lead: of the most frequent rollouts, those of another answer get -1",
    "trace_entropy": "a rollout lacks the tokens that over names: its whole trace counted",
    "missing_probability": "a rollout lacks its probability or its path: the group was scored by votes alone",
    "path_probability": "one path has two probabilities, further apart than batches differ",
    "no_path_repeats": "no path came twice, where the probability of a path has told right from wrong worse than votes",
    "fit_failed": "the fit of two components failed: nothing was pruned",
    "one_context": "sub-groups are as large as the pool: gmae is the majority vote; set group_size, or add votes",
    "no_span": "an answer does not stand in its text as it was read: none of its tokens can be masked",
    "unproved": "no verdict proves the most voted answer",
    "pseudo_reference": "no reference was sent: the probabilities are taken to be the majority answer's",
}
NOTABLE: Final = (
    "all_pruned", "tie", "low_entropy", "u_gt_1", "guessed_answer", "same_value_apart", "label_conflict", "partial",
    "neutral", "missing_entropy_imputed",
)  # fmt: skip

Scored = tuple[Mapping[str, Any], GroupReply]


def signs(group: Mapping[str, Any], reply: GroupReply) -> list[str]:
    """One sentence for each; none for a group as one expects it."""
    if reply.error is not None:
        return [f"it cannot be scored: {reply.error.code}"]
    out = []
    unanswered = Unanswered()
    unanswered.add(len(group["rollouts"]), reply.no_answer)
    if unanswered.most:
        out.append(str(unanswered))
    most = max(reply.support or (), key=lambda s: s.count, default=None)
    if most is not None and reply.pseudo_label is not None:
        winner = next((s for s in reply.support or () if s.answer == reply.pseudo_label), most)
        if winner.count < most.count:
            out.append(
                f"{short_answer(winner.answer)} won with {winner.count} votes against {most.count} for "
                f"{short_answer(most.answer)}"
            )
        if most.count < SCATTERED * len(group["rollouts"]):
            out.append(f"the votes scatter: the most voted answer has {most.count} of {len(group['rollouts'])}")
    diagnostics = reply.diagnostics or {}
    if diagnostics.get("label_accuracy") == 0 and diagnostics.get("ground_truth_ratio", 0) > 0:
        share = f"{diagnostics['ground_truth_ratio']:.0%} of the rollouts are right"
        label = "" if group.get("label") is None else f" (label {short_answer(group['label'])})"
        out.append(f"the pseudo-label is wrong though {share}{label}")
    return out + [FLAGS[flag] for flag in reply.flags or () if flag in NOTABLE]


def most_suspicious(scored: Sequence[Scored], count: int) -> list[Scored]:
    """The groups with the most signs, of those with equally many the ones with the weaker majority."""

    def order(item: Scored) -> tuple[int, float]:
        group, reply = item
        return -len(signs(group, reply)), majority(reply.diagnostics)

    return [item for item in sorted(scored, key=order)[:count] if signs(*item)]
