"""The frontier of adaptive voting, on recorded votes: `python3 research/scripts/stopping_frontier.py [--write]`.

Of each group's recorded rollouts 64 are drawn in a random order, many times. The first 32 train. After them and after
each wave a rule looks; where it finds the group settled, the rest is saved. Then the label and the trained rollouts'
normalised advantages are compared with those of all 64. A fixed smaller M is the same with one look and no rule.

Prints the tables of research/docs/stopping.md; `--write` renews them and the plot.
"""

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dare_reward
from dare_research.simulation.engine import break_even_rows
from dare_research.stopping_rules import adaptive_consistency, bayesian
from dare_reward import Groups
from dare_reward.commands.methods import markdown
from dare_reward.methods import find
from dare_reward.stopping.futures import outlook
from dare_reward.stopping.rules import Tally, flip_risk, tallies

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "research" / "docs" / "stopping.md"
TRAINED, VOTES = 32, 64
LOOKS = tuple(range(TRAINED, VOTES, 4))
WIDE = 3  # panels in a row
VOTES_ONLY: dict[str, Any] = {"tie": "first", "no_answer": "clean"}
BLOCK = r"<!-- {name} -->\n(?:.*?\n)??<!-- end -->"

Rule = Callable[["Look"], bool]


@dataclass(frozen=True, slots=True)
class Look:
    """One group after so many votes."""

    votes: int
    label: str | None
    advantages: Any
    tally: Tally
    flip: float
    risk: float
    change: float


Game = tuple[list[Look], Look]  # the looks of one order, and the end


def recorded(name: str) -> tuple[list[list[str | None]], list[list[float]]]:
    """Answers and mean entropies of each group."""
    path = ROOT / name
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        groups = [json.loads(line) for line in lines]
    reply = dare_reward.estimate(groups, method="ttrl", limits=dare_reward.scoring.request.UNLIMITED)
    entropies = [
        [float(np.mean(r.get("token_entropies") or r.get("mean_entropy", np.nan))) for r in g["rollouts"]]
        for g in groups
    ]
    return [list(g.answers or ()) for g in reply.groups], entropies


def games(
    data: tuple[list[Any], list[Any]], method: str, orders: int, *, seed: int = 0, draws: int = 100
) -> list[Game]:
    """Every group in `orders` random orders, looked at after each four votes."""
    rng, (answers, entropies) = np.random.default_rng(seed), data
    rows = [(p, rng.permutation(len(answers[p]))[:VOTES]) for _ in range(orders) for p in range(len(answers))]
    looks: list[list[Look]] = [[] for _ in rows]
    for votes in (*LOOKS, VOTES):
        groups = Groups.of(
            [[answers[p][i] for i in order[:votes]] for p, order in rows],
            mean_entropy=[[entropies[p][i] for i in order[:votes]] for p, order in rows],
        )
        for own, look in zip(looks, _looks(groups, method, votes, draws), strict=True):
            own.append(look)
    return [(own[:-1], own[-1]) for own in looks]


def _looks(groups: Groups, method: str, votes: int, draws: int) -> Iterator[Look]:
    reply = dare_reward.estimate(groups, method=method, limits=dare_reward.scoring.request.UNLIMITED)
    to_come = np.full(len(groups.sizes_P), VOTES - votes)
    ballots = find("ttrl").ballots
    assert ballots is not None
    tallied = tallies(ballots(groups, VOTES_ONLY))
    flips = flip_risk(tallied, to_come)
    risks = changes = np.zeros(len(to_come))
    if method != "ttrl" and votes < VOTES:
        trained = np.concatenate([np.arange(votes) < TRAINED for _ in to_come])
        seen = outlook(
            Groups(groups.sizes_P, groups.answer_R, groups.support_P, groups.text_A, groups.columns, trained),
            partial(find(method).run, params=find(method).resolve({})),
            to_come,
            draws=draws,
            prior=0.5,
            seed=0,
        )
        risks, changes = seen.risk_P, seen.change_P
    for p, group in enumerate(reply.groups):
        rewards = np.array((group.rewards or ())[:TRAINED])
        centred = rewards - rewards.mean()
        advantages = centred / rewards.std() if rewards.std() > 1e-9 else np.zeros(TRAINED)
        yield Look(votes, group.pseudo_label, advantages, tallied[p], flips[p], risks[p], changes[p])


# --- what is compared ------------------------------------------------------------------------------------------------


def cosine(one: Any, other: Any) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    if length == 0:
        return float(not one.any() and not other.any())
    return float(one @ other) / length


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of all games: share of vote-only rollouts saved, labels flipped (each, and of those that stopped), cosine."""

    saved: float
    flipped: Any
    of_stopped: float
    cosine: float

    @property
    def flips(self) -> float:
        return float(self.flipped.mean())


def outcome(played: Sequence[Game], stops: Rule, wave: int) -> Outcome:
    saved, flipped, cosines, stopped = 0, [], [], 0
    for looks, end in played:
        asked = (look for look in looks if (look.votes - TRAINED) % wave == 0)
        at = next((look for look in asked if stops(look)), end)
        saved += VOTES - at.votes
        stopped += at is not end
        flipped.append(at.label != end.label)
        cosines.append(cosine(at.advantages, end.advantages))
    share = saved / (VOTES - TRAINED) / len(played)
    return Outcome(share, np.array(flipped, float), sum(flipped) / max(stopped, 1), float(np.mean(cosines)))


def fixed(votes: int) -> Rule:
    return lambda look: look.votes >= votes


def by_votes(rule: Callable[..., Any], **params: Any) -> Rule:
    return lambda look: bool(rule([look.tally], np.array([VOTES - look.votes]), **params)[0])


def rules(method: str) -> dict[str, list[tuple[str, Rule]]]:
    """Every rule with the values of its knob, strict to loose."""
    out: dict[str, list[tuple[str, Rule]]] = {
        "predictive": [
            (f"delta {d}", lambda look, d=d: look.flip <= d) for d in (1e-9, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2)
        ],
        "adaptive_consistency": [
            (f"confidence {c}", by_votes(adaptive_consistency, confidence=c)) for c in (0.999, 0.99, 0.95, 0.9, 0.8)
        ],
        "bayesian": [
            ("posterior .999", by_votes(bayesian, test="posterior", threshold=0.999)),
            *((f"lead {k}", by_votes(bayesian, test="lead", threshold=k)) for k in (12, 8, 6, 4)),
            ("ratio 19", by_votes(bayesian)),
        ],
        "fixed M": [(f"M {m}", fixed(m)) for m in (56, 48, 40, 32)],
    }
    if method != "ttrl":
        out["rewards"] = [
            (f"change {c}", lambda look, c=c: look.change <= c and look.risk <= 0.05)
            for c in (0.003, 0.01, 0.02, 0.03, 0.05, 0.1)
        ]
    return out


SETS = (
    ("game24, ttrl", "tests/data/game24_gpt4_m100.jsonl.gz", "ttrl", 60),
    ("arithmetic, ttrl", "examples/arithmetic_m64.jsonl", "ttrl", 150),
    ("arithmetic, dare", "examples/arithmetic_m64.jsonl", "dare", 60),
    ("informative base, ttrl", "research/results/votes-informative-0.jsonl.gz", "ttrl", 40),
    ("informative base, dare", "research/results/votes-informative-0.jsonl.gz", "dare", 15),
    ("uninformative base, ttrl", "research/results/votes-uninformative-1.jsonl.gz", "ttrl", 40),
    ("uninformative base, dare", "research/results/votes-uninformative-1.jsonl.gz", "dare", 15),
)


def interval(flipped: Any, groups: int) -> str:
    """95% over groups: orders of one group are not independent."""
    per_group = flipped.reshape(-1, groups).mean(axis=0)
    share, spread = float(per_group.mean()), 1.96 * float(per_group.std(ddof=1)) / np.sqrt(groups)
    return f"{share:.2%} [{max(share - spread, 0):.2%}, {share + spread:.2%}]"


def table(played: Sequence[Game], method: str, groups: int) -> tuple[list[list[str]], dict[str, list[Outcome]]]:
    rows, curves = [], {}
    for name, knobs in rules(method).items():
        curves[name] = []
        for knob, rule in knobs:
            eight, four = (outcome(played, rule, wave) for wave in (8, 4))
            curves[name].append(eight)
            rows.append(
                [
                    f"`{name}`", knob, f"{eight.saved:.1%}", interval(eight.flipped, groups),
                    f"{eight.of_stopped:.2%}", f"{eight.cosine:.4f}",
                    f"{four.saved:.1%}", f"{four.flips:.2%}", f"{four.cosine:.4f}",
                ]
            )  # fmt: skip
    return rows, curves


HEAD = (
    "rule",
    "knob",
    "saved",
    "labels flipped, of all [95%]",
    "of those stopped",
    "cosine",
    "waves of 4: saved",
    "flipped",
    "cosine",
)


def draw(curves: dict[str, dict[str, list[Outcome]]], path: Path) -> None:
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({"svg.hashsalt": "dare", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(11, 3.6 * -(-len(curves) // WIDE)), layout="constrained")
        panels = figure.subplots(-(-len(curves) // WIDE), WIDE).flat
        for axes in panels[len(curves) :]:
            axes.remove()
        for axes, (title, of_rule) in zip(panels[: len(curves)], curves.items(), strict=True):
            for name, points in of_rule.items():
                axes.plot([p.saved for p in points], [100 * p.flips for p in points], "o-", ms=3, label=name)
            axes.axhline(1, color="grey", lw=0.8, ls="--")
            axes.axvline(0.4, color="grey", lw=0.8, ls="--")
            axes.set(title=title, xlabel="vote-only rollouts saved", ylabel="labels flipped, %", yscale="symlog")
        axes.legend(fontsize=7)
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--orders", type=float, default=1.0, help="times the usual number of orders")
    arguments = parser.parse_args()
    blocks, curves = {}, {}
    for title, file, method, orders in SETS:
        data = recorded(file)
        played = games(data, method, max(2, int(orders * arguments.orders)))
        rows, curves[title] = table(played, method, len(data[0]))
        blocks[title] = markdown(HEAD, rows)
        print(f"{title}: {len(data[0])} groups, {len(played)} orders\n{blocks[title]}\n", flush=True)
    blocks["engine"] = markdown(*break_even_rows())
    print(blocks["engine"])
    if arguments.write:
        text = DOCUMENT.read_text()
        for name, block in blocks.items():
            text = re.sub(
                BLOCK.format(name=name),
                lambda _, n=name, b=block: f"<!-- {n} -->\n{b}\n<!-- end -->",
                text,
                flags=re.DOTALL,
            )
        DOCUMENT.write_text(text)
        draw(curves, DOCUMENT.parent / "stopping-frontier.svg")


if __name__ == "__main__":
    main()
