"""Votes that end in a tie: how many groups of a run, and what each rule of `tie` would have labelled there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..estimators.ttrl import TIES, majority
from ..groups import Groups


class Ties:
    """A tally over the lines of a run log.

    groups, tied      scored groups; those of which several answers have the most votes
    labelled          of the tied groups those that a rule labels, by rule: `all` names several, `none` none
    right             of those whose truth is known the share that the label has right, summed; by rule
    known             tied groups whose truth is known
    other             tied groups that `certainty` labels otherwise than `first`
    """

    def __init__(self) -> None:
        self.groups = self.tied = self.known = self.other = 0
        self.labelled, self.right = Counter[str](), Counter[str]()

    def add(self, line: Mapping[str, Any]) -> None:
        """One scored group; a line of a group that could not be scored counts as none."""
        answers, rollouts = line["reply"].get("answers"), line["rollouts"]
        if not answers:
            return
        self.groups += 1
        votes = Counter(a for a in answers if a is not None).most_common(2)
        if len(votes) < 2 or votes[0][1] > votes[1][1]:
            return
        self.tied += 1
        entropies = [r.get("mean_entropy") for r in rollouts]
        groups = Groups.of([answers], mean_entropy=[[math.nan if h is None else h for h in entropies]])
        sure = all(h is not None for h, a in zip(entropies, answers, strict=True) if a is not None)
        labels = {rule: _texts(groups, rule) for rule in TIES if sure or rule != "certainty"}
        self.labelled.update(rule for rule, label in labels.items() if label)
        self.other += "certainty" in labels and labels["certainty"] != labels["first"]
        right = dict(zip(answers, [r.get("correct") for r in rollouts], strict=True))
        if None in right.values():
            return
        self.known += 1
        for rule, label in labels.items():
            self.right[rule] += sum(map(bool, map(right.get, label))) / max(len(label), 1)  # type: ignore[assignment]

    def __str__(self) -> str:
        """A sentence; empty without a tie."""
        if not self.tied:
            return ""
        text = f"the vote is tied in {self.tied:,} of {self.groups:,} groups"
        if self.labelled["certainty"]:
            text += f"; tie=certainty labels {self.other:,} of them otherwise than tie=first"
        if self.known:
            rules = (f"{rule} {self.right[rule]:.3g}" for rule in TIES if self.labelled[rule])
            text += f". Right labels in the {self.known:,} whose truth is known: {', '.join(rules)}"
        return text


def _texts(groups: Groups, rule: str) -> list[str]:
    return [text for text, chosen in zip(groups.text_A, majority(groups, rule).tolist(), strict=True) if chosen]
