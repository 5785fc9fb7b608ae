"""verl's own filter of groups (algorithm.filter_groups), which works while verl samples: before there are entropies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..errors import ConfigError
from ..methods import find, specs
from .adapter import Scorer, groups_by, zero_dropped
from .verl_rows import final_rows, groups_of, uid_of

METRIC: Final = "dare"


def filters(config: Any) -> bool:
    """Whether verl filters groups; ConfigError if it would by another metric than ours."""
    asked = config.algorithm.get("filter_groups") or {}
    if not asked.get("enable"):
        return False
    if asked.get("metric") != METRIC:
        raise ConfigError(
            f"algorithm.filter_groups.metric={asked.get('metric')} filters by the ground truth, before the service has "
            f"scored anything: set algorithm.filter_groups.metric={METRIC}"
        )
    return True


def by_votes(scorer: Scorer) -> Scorer:
    """The scorer of groups whose entropies do not exist yet."""
    method = find(scorer.method)
    optional = any(s.name == "missing_entropy" for s in specs(method))
    if not optional and {*method.requires} - {"answer"}:
        raise ConfigError(
            f"algorithm.filter_groups asks before there are entropies, and {scorer.method} needs more than answers: "
            "disable it"
        )
    params = dict(scorer.params) | ({"missing_entropy": "frequency"} if optional else {})
    kept = tuple((name, value) for name, value in scorer.update if name == "settled")
    client = tuple((name, value) for name, value in scorer.client if not name.startswith("run_log"))
    # A run log has each group once: as it is trained on.
    return replace(scorer, params=tuple(sorted(params.items())), update=kept, client=client, run=None, shadow=())


def filter_groups(scorer: Scorer, trainer: Any, buffer: Any, trained: int | None = None) -> None:
    """Have a replay buffer evict, and sample again, the groups that the reply says to drop.

    verl keeps a verdict of each finished group: None to train on it, else the metric that all its rollouts share. We
    write these verdicts, and verl's filter acts on them.
    """
    original = buffer._dapo_filtered_keys  # noqa: SLF001

    def filtered(partition: str) -> Any:
        if partition != "val":
            known = buffer._dapo_classification_cache[partition]  # noqa: SLF001
            finished = buffer.finished_keys[partition] - known.keys()
            keys = [key for key in buffer.partitions[partition] if uid_of(key) in finished]
            known.update(_verdicts(scorer, trainer, keys, partition, trained) if keys else {})
        return original(partition)

    buffer._dapo_filtered_keys = filtered  # noqa: SLF001


def _verdicts(
    scorer: Scorer, trainer: Any, keys: list[str], partition: str, trained: int | None
) -> dict[str, float | None]:
    import transfer_queue as tq

    data = tq.kv_batch_get(
        keys=keys, partition_id=partition, select_fields=["responses", "response_mask", "reward_model"]
    )
    last = final_rows(keys, [False] * len(keys))
    members = groups_by(map(uid_of, last))
    groups = groups_of(scorer, trainer, data, last, members, trained=trained)
    rewards, reply = scorer.score(groups)
    if reply is None:
        return dict.fromkeys(members)
    levels = (one[0] for one in zero_dropped(rewards, reply, 0.0))
    return {u: level if g.drop else None for u, level, g in zip(members, levels, reply.groups, strict=True)}
