"""Rewards of arms that ask the service for more than a method's rewards, through TRL's adapter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dare_reward.errors import ReplyError
from dare_reward.inputs import Group
from dare_reward.stacks.trl import DareReward

ASKED = "asked"  # a column of the dataset: what is asked for the prompt alone, in JSON


class OwnAdvantages(DareReward):
    """Beside its rewards, the advantages that the service returns: `advantages` of the last call's rows, None where the
    reply selects others.

    own   what is asked beside rewards (`dare_reward.scoring.update.Update`); TRL's adapter refuses it, because TRL
          itself would not train on it
    """

    def __init__(self, url: str, *, own: Mapping[str, Any], **settings: Any) -> None:
        super().__init__(url, **settings)
        self.scorer = replace(self.scorer, update=tuple(own.items()))
        self.advantages: list[float | None] = []

    def _results(self, trainer: Any, groups: Any, rewards: Any, reply: Any) -> list[Any]:
        if reply is None:
            raise ReplyError("no advantages without a reply")
        self.advantages = [a for group in reply.groups for a in group.advantages[: self._size(trainer)]]
        return super()._results(trainer, groups, rewards, reply)


class AskedByPrompt(DareReward):
    """What the column `asked` says of a prompt goes into its group: a method and parameters of its own."""

    def _rows(self, trainer: Any, prompts: Any, completions: Any, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows = super()._rows(trainer, prompts, completions, columns)
        return [row | {ASKED: asked} for row, asked in zip(rows, columns[ASKED], strict=True)]

    def _groups(self, trainer: Any, rows: Sequence[Mapping[str, Any]]) -> list[Group]:
        bare = [{name: value for name, value in row.items() if name != ASKED} for row in rows]
        groups = super()._groups(trainer, bare)
        asked = [row[ASKED] for row in rows][:: len(rows) // len(groups)]
        return [{**g, **json.loads(own)} for g, own in zip(groups, asked, strict=True)]
