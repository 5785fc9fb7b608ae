"""Right labels by the number of rollouts, as `calibrate`, `preflight` and `compare` print them."""

from __future__ import annotations

from typing import Final

from dare_reward.analysis.group_size import BySize
from dare_reward.commands.tables import Screen, number, table

COMMON: Final = 8  # rollouts of a prompt in many recipes: the size that is put into words


def by_rollouts(found: BySize, on: Screen) -> str:
    """A row a method, a column a size."""
    what = "right labels" if found.truth else "labels that agree with those of all rollouts"
    head = (f"{what}, by rollouts of a prompt", *map(str, found.sizes))
    return table(head, [[row.name, *(number(share) for share in row.share)] for row in found.rows], right=True, on=on)


def sentence(found: BySize, chosen: str = "") -> list[str]:
    """`with 8 rollouts: vote .47, entropy .51 (+4.2, 2.7 to 5.7); the vote needs 16 for .51`.

    chosen   the row whose share the vote is to reach (default: the best of this size)
    """
    if not found.sizes:
        return []
    at = found.sizes.index(COMMON) if COMMON in found.sizes else 0
    head = f"with {found.sizes[at]} rollouts"
    vote, *others = found.rows
    if not found.truth:
        shares = "; ".join(f"{row.name} {100 * row.share[at]:.0f}%" for row in found.rows)
        return [f"{head}, labels equal to those of all {found.sizes[-1]}: {shares}"]
    if not others:
        return []
    best = next((row for row in others if row.name == chosen), max(others, key=lambda row: row.share[at]))
    base = "the vote" if vote.name == "vote" else vote.name
    parts = [f"{vote.name} {number(vote.share[at])}"]
    for row in others:
        above = row.above[at]
        points = f"{100 * above.estimate:+.1f}, {100 * above.low:+.1f} to {100 * above.high:+.1f} points"
        parts.append(f"{row.name} {number(row.share[at])} ({points})")
    if best.above[at].low <= 0:
        end = f"{best.name} is not clearly above {base}"
    else:
        needs, share = found.reaches(vote, best.share[at]), number(best.share[at])
        end = f"{base} needs {needs} for {share}" if needs else f"{base} does not reach {share} with {found.sizes[-1]}"
    return [f"{head}: {'; '.join(parts)}; {end}"]
