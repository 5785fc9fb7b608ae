"""What makes a group worth a look: signs that its vote, its answers or its entropies are not what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dare_reward.analysis.unanswered import Unanswered
from dare_reward.reply import GroupReply

from .tables import short_answer

__all__ = ["signs", "strangest"]

SCATTERED = 0.2  # the most voted answer has a smaller share of the rollouts
FLAGS: Final[Mapping[str, str]] = {
    "all_pruned": "no answer reached tau",
    "tie": "several answers have the most votes",
    "low_entropy": "an answer is as sure as a repetition loop (below 0.02 nats)",
    "u_gt_1": "an answer is very unsure (above 1 nat)",
    "guessed_answer": "an answer was guessed from a text that announces none",
    "same_value_apart": "answers of one value were not merged, for their units or names",
    "missing_entropy_imputed": "some entropies are missing",
}

Scored = tuple[Mapping[str, Any], GroupReply]


def signs(group: Mapping[str, Any], found: GroupReply) -> list[str]:
    """One sentence for each; none for a group as one expects it."""
    if found.error is not None:
        return [f"it cannot be scored: {found.error.code}"]
    out = []
    unanswered = Unanswered()
    unanswered.add(group["rollouts"], found.valid or ())
    if unanswered.most:
        out.append(str(unanswered))
    most = max(found.support or (), key=lambda s: s.count, default=None)
    if most is not None and found.pseudo_label is not None:
        winner = next((s for s in found.support or () if s.answer == found.pseudo_label), most)
        if winner.count < most.count:
            out.append(
                f"{short_answer(winner.answer)} won with {winner.count} votes against {most.count} for "
                f"{short_answer(most.answer)}"
            )
        if most.count < SCATTERED * len(group["rollouts"]):
            out.append(f"the votes scatter: the most voted answer has {most.count} of {len(group['rollouts'])}")
    diagnostics = found.diagnostics or {}
    if diagnostics.get("label_accuracy") == 0 and diagnostics.get("ground_truth_ratio", 0) > 0:
        share = f"{diagnostics['ground_truth_ratio']:.0%} of the rollouts are right"
        label = "" if group.get("label") is None else f" (label {short_answer(group['label'])})"
        out.append(f"the pseudo-label is wrong though {share}{label}")
    return out + [FLAGS[flag] for flag in found.flags or () if flag in FLAGS]


def strangest(scored: Sequence[Scored], count: int) -> list[Scored]:
    """The groups with the most signs, of those with equally many the ones with the weaker majority."""

    def order(item: Scored) -> tuple[int, float]:
        group, found = item
        return -len(signs(group, found)), float((found.diagnostics or {}).get("majority_ratio", 0.0))

    return [item for item in sorted(scored, key=order)[:count] if signs(*item)]
