"""What a tracker shows of a step: scalars by the names that the field uses, a table of groups, a trace a rollout.

Everything is made of lines of a run log, or of a reply's groups as JSON, which have the same names. What rollouts wrote
is made harmless: trackers render Markdown and HTML, and tables are opened in spreadsheets.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from .._pattern import pattern
from ..printable import printable
from .reasons import REASONS, reasons

__all__ = [
    "COLUMNS",
    "MOST_GROUPS",
    "SCALARS",
    "Scalar",
    "deviation",
    "harmless",
    "messages",
    "scalars",
    "table_rows",
    "trained",
    "worth_reading",
]

JSON = Mapping[str, Any]
Lines = Sequence[JSON]
MOST_GROUPS: Final = 16
WIDTH: Final = 200  # characters of a cell
SHOWN: Final = 6  # answers of a group in its row


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number of a step, logged as `dare/NAME`; `value` gets the step's groups that were scored."""

    meaning: str
    value: Callable[[Lines], float | None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [float(v) for v in values if v is not None]
    return math.fsum(known) / len(known) if known else None


def _diagnostic(name: str) -> Callable[[Lines], float | None]:
    return lambda lines: _mean([(line.get("diagnostics") or {}).get(name) for line in lines])


def _each(name: str) -> Callable[[Lines], Iterator[Any]]:
    return lambda lines: chain.from_iterable(line.get(name) or () for line in lines)


def trained(line: JSON, name: str) -> list[float]:
    """A column of the rollouts that are trained on."""
    values = line.get(name) or ()
    return [v for v, on in zip(values, line.get("trained") or [True] * len(values), strict=True) if on]


def deviation(values: Sequence[float]) -> float | None:
    """Population deviation."""
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) * (v - mean) for v in values) / len(values))


def _deviations(lines: Lines) -> list[float]:
    found = [deviation(trained(line, "rewards")) for line in lines if line.get("rewards")]
    return [d for d in found if d is not None]


def _pruned(lines: Lines) -> float | None:
    pairs = zip(_each("valid")(lines), _each("keep")(lines), strict=True)
    return _mean([float(valid and not kept) for valid, kept in pairs])


def _entropy(lines: Lines) -> float | None:
    """By the support, which has votes and entropies of what was answered."""
    rows = [s for s in _each("support")(lines) if s.get("uncertainty") is not None]
    votes = sum(s["count"] for s in rows)
    return math.fsum(s["count"] * s["uncertainty"] for s in rows) / votes if votes else None


def _entropy_of(right: bool) -> Callable[[Lines], float | None]:
    def value(lines: Lines) -> float | None:
        rows = [(line.get("mean_entropies"), line.get("correct")) for line in lines]
        pairs = (
            pair
            for entropies, correct in rows
            if entropies and correct
            for pair in zip(entropies, correct, strict=True)
        )
        return _mean([entropy for entropy, ok in pairs if ok is right])

    return value


SCALARS: Final[Mapping[str, Scalar]] = MappingProxyType(
    {
        "majority_ratio": Scalar("votes of a group's most voted answer, over M", _diagnostic("majority_ratio")),
        "label_accuracy": Scalar("share of groups whose pseudo-label is right", _diagnostic("label_accuracy")),
        "reward_accuracy": Scalar(
            "share of rollouts whose agreement with the pseudo-label equals their correctness",
            _diagnostic("reward_accuracy"),
        ),
        "ground_truth_ratio": Scalar("share of rollouts that are right", _diagnostic("ground_truth_ratio")),
        "frac_reward_zero_std": Scalar(
            "share of groups in which all trained rollouts have the same reward",
            lambda lines: _mean([float(d <= 1e-12) for d in _deviations(lines)]),
        ),
        "reward": Scalar("mean reward", lambda lines: _mean(list(_each("rewards")(lines)))),
        "reward_std": Scalar("mean over groups of the rewards' deviation", lambda lines: _mean(_deviations(lines))),
        "answered": Scalar(
            "share of rollouts that have an answer", lambda lines: _mean([float(v) for v in _each("valid")(lines)])
        ),
        "pruned": Scalar("share of rollouts whose answer was pruned", _pruned),
        "truncated": Scalar(
            "share of rollouts that the length limit cut off",
            lambda lines: _mean([float(v) for v in _each("truncated")(lines)]),
        ),
        "distinct_answers": Scalar(
            "distinct answers of a group",
            lambda lines: _mean([len(x) for line in lines if (x := line.get("support")) is not None]),
        ),
        "dropped": Scalar(
            "share of groups that carry nothing",
            lambda lines: _mean([float(line.get("drop") is not None) for line in lines]),
        ),
        "entropy": Scalar("mean entropy per token in nats over the rollouts that have an answer", _entropy),
        "entropy_right": Scalar("mean entropy of right rollouts", _entropy_of(True)),
        "entropy_wrong": Scalar("mean entropy of wrong rollouts", _entropy_of(False)),
        "num_tokens": Scalar("mean number of generated tokens", lambda lines: _mean(list(_each("num_tokens")(lines)))),
    }
)  # fmt: skip


def scalars(lines: Lines) -> dict[str, float]:
    """Each of SCALARS that is known of these groups; `group_errors`, the share of groups that could not be scored; and
    `shadow_METHOD_KEY`, the mean of what shadow methods say."""
    good = [line for line in lines if line.get("error") is None]
    out = {name: value for name, scalar in SCALARS.items() if (value := scalar.value(good)) is not None}
    if lines:
        out["group_errors"] = 1 - len(good) / len(lines)
    told = [(line.get("diagnostics") or {}).get("shadow") or {} for line in good]
    for method in dict.fromkeys(chain.from_iterable(told)):
        of_method = [own[method] for own in told if method in own]
        for key in dict.fromkeys(chain.from_iterable(of_method)):
            values = [v for own in of_method if isinstance(v := own.get(key), int | float)]
            if (mean := _mean(values)) is not None:
                out[f"shadow_{method}_{key}"] = mean
    return out


# --- what rollouts wrote ---------------------------------------------------------------------------------------------

FORMULA: Final = ("=", "+", "-", "@", "\n", "＝", "＋", "－", "＠")  # what begins one in a spreadsheet
NUMBER: Final = pattern(r"[+-]?\d+(?:\.\d+)?")
BREAK: Final = "\u200b"  # a space without width: it takes the meaning from a sequence and is not seen
LINKS: Final = pattern(r"(?<=!)(?=\[)|(?<=\])(?=[(:\[])|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=[jJ])(?=avascript)")


def harmless(text: str | None, *, width: int | None = WIDTH) -> str | None:
    """The text for a cell: control characters escaped, HTML quoted, links and images of Markdown broken, no formula.

    None stays None. What is longer than `width` is cut.
    """
    if text is None:
        return None
    cut = text if width is None or len(text) <= width else text[: width - 3] + "..."
    quoted = LINKS.sub(BREAK, html.escape(printable(cut, keep="\n"), quote=False)).replace("`", "'")
    return f"'{quoted}" if quoted.startswith(FORMULA) and not NUMBER.fullmatch(quoted) else quoted


COLUMNS: Final = (
    "group_id", "pseudo_label", "label", "right", "majority_ratio", "answers", "flags", "why", "prompt",
)  # fmt: skip


# As the column `why` has them.
WHY: Final = MappingProxyType(
    {
        "failed": "not scored",
        "wrong": "confident and wrong",
        "flip": "a shadow method differs",
        "pruned": "nothing kept",
        "tie": "tie",
    }
)


def worth_reading(lines: Lines, most: int = MOST_GROUPS) -> list[tuple[JSON, str]]:
    """The groups of a step to read first, with the reason, which is empty for those that are there to fill up."""
    order = [*REASONS, ""]
    why = [next(iter(reasons(line)), "") for line in lines]
    ranked = sorted(range(len(lines)), key=lambda i: (order.index(why[i]), i))
    return [(lines[i], why[i] and WHY[why[i]]) for i in ranked[:most]]


def table_rows(groups: Sequence[tuple[JSON, str]]) -> list[dict[str, Any]]:
    """A row with COLUMNS for each group of `worth_reading`."""
    return [_row(line, why) for line, why in groups]


def _row(line: JSON, why: str) -> dict[str, Any]:
    told, error = line.get("diagnostics") or {}, line.get("error") or {}
    right = told.get("label_accuracy")
    return {
        "group_id": harmless(str(line.get("group_id"))),
        "pseudo_label": harmless(line.get("pseudo_label")),
        "label": harmless(line.get("label")),
        "right": None if right is None else bool(right),
        "majority_ratio": told.get("majority_ratio"),
        "answers": _answers(line.get("support") or ()),
        "flags": ", ".join(line.get("flags") or ()),
        "why": harmless(f"{why}: {error.get('code')}") if error else why,
        "prompt": harmless(line.get("prompt")),
    }


def _answers(support: Sequence[JSON]) -> str:
    """`204: 31 votes, reward 0.52; 17: 3 votes, pruned`, most votes first."""
    ordered = sorted(support, key=lambda s: -s["count"])
    parts = []
    for row in ordered[:SHOWN]:
        reward = "" if row.get("reward") is None else f", reward {row['reward']:.3g}"
        parts.append(f"{row['answer'][:40]}: {row['count']} votes{reward if row.get('kept') else ', pruned'}")
    more = [f"{len(ordered) - SHOWN} more"] if len(ordered) > SHOWN else []
    return harmless("; ".join(parts + more), width=8 * WIDTH) or ""


def messages(line: JSON) -> Iterator[tuple[list[dict[str, str]], dict[str, Any]]]:
    """A trace for each rollout of a line: the conversation as far as it was kept, and what is known of the rollout."""
    answers = line.get("answers") or [None] * len(line.get("trained") or ())
    for i, answer in enumerate(answers):
        known = {
            "answer": harmless(answer),
            **{
                one: (line.get(name) or {i: None})[i]
                for one, name in (
                    ("reward", "rewards"), ("advantage", "advantages"), ("kept", "keep"), ("correct", "correct"),
                    ("entropy", "mean_entropies"), ("num_tokens", "num_tokens"), ("trained", "trained"),
                )
            },
            "group_id": harmless(str(line.get("group_id"))),
            "pseudo_label": harmless(line.get("pseudo_label")),
            "label": harmless(line.get("label")),
        }  # fmt: skip
        text = (line.get("texts") or {i: None})[i]
        said = harmless(text, width=None) or known["answer"] or "(no answer)"
        asked = [{"role": "user", "content": prompt}] if (prompt := harmless(line.get("prompt"), width=None)) else []
        yield [*asked, {"role": "assistant", "content": said}], {k: v for k, v in known.items() if v is not None}
