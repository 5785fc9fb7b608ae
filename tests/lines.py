"""A line of a run log for a test, of columns by name: those of its rollouts and those of its reply."""

from dare_reward.runs.line import VERSION

OF_ROLLOUT = {"mean_entropies": "mean_entropy", "texts": "text"} | {
    name: name for name in ("num_tokens", "trained", "correct", "token_entropies", "finish_reason")
}
OF_GROUP = ("run", "step", "time", "seconds", "label", "prompt", "kind")


def as_line(**keys):
    """`group_id` names the group and its reply; None: nobody has named it."""
    group = {name: keys.pop(name) for name in OF_GROUP if name in keys}
    columns = {own: keys.pop(name) for name, own in OF_ROLLOUT.items() if name in keys}
    size = len(keys.get("valid") or keys.get("answers") or ())
    rollouts = [{"answer": (keys.get("answers") or [None] * size)[i]} for i in range(size)]
    for own, column in columns.items():
        for rollout, value in zip(rollouts, column or (), strict=False):
            if value is not None:
                rollout[own] = value
    name = {} if keys.get("group_id") is None else {"group_id": keys["group_id"]}
    return {"v": VERSION, "time": "", "run": None, "step": None, "seconds": 0.0, **group, **name, "rollouts": rollouts,
            "reply": {"group_id": "0", **{k: v for k, v in keys.items() if v is not None}}}  # fmt: skip
