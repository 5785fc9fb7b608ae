"""`dare-reward plan FILE --labels LABELS`: labelled prompts as rewards, the others by what the labels calibrate.

Labelled prompts become groups of method `gt`, in a stated share of each step. All others are scored by the line of
`calibrate`. Both give 1 to right and 0 to other rollouts, so one scale holds for all groups of a step.
"""

from __future__ import annotations

import argparse
import json
import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, Final

from dare_reward.analysis.preflight import preflight
from dare_reward.answers.choices import choice_letter, option_letters
from dare_reward.answers.classes import Labels, listed
from dare_reward.answers.labels import read_labels as accepted
from dare_reward.answers.rollouts import option_tuple
from dare_reward.errors import RequestError
from dare_reward.files.content import open_values
from dare_reward.files.names import named
from dare_reward.files.output import text_file, whole_file
from dare_reward.files.reader import Faults
from dare_reward.files.shapes import Chat, text_of
from dare_reward.methods import find, other_scale, read_line
from dare_reward.openrlhf import Label, write_label
from dare_reward.scoring.request import UNLIMITED, prepare

from .command import add_command
from .group_lines import add_file, missing_entropies, read_groups, read_labels, warn
from .labelled import read_labelled, refuse_repeats

SHARE: Final = 0.5
SEED: Final = 0  # of the order of labelled rows in each of their passes
NOTES = """Fits what `calibrate` fits, and writes a data set that repeats the labelled prompts until they are the share
that you want. In training of small built models, labels in half of each step and the exponent in the other half
gained more than either alone."""
ADDRESS: Final = "http://127.0.0.1:8000"
Row = dict[str, Any]
Options = tuple[str, ...] | None  # letters of a choice other than A to J


@dataclass(frozen=True, slots=True)
class Stack:
    """labelled: a row with its label, kind of answers and options; lines: how the stack is told.

    options: whether its rows can hold options; without, answers are read with A to J
    """

    labelled: Callable[[Row, Labels | None, str, Options], Row]
    lines: str
    options: bool = False


def _openrlhf(row: Row, label: Labels | None, kind: str, options: Options) -> Row:
    """`eval`: rewarded by its label at once, as an evaluation is. OpenRLHF has no other mark."""
    split: Any = "train" if label is None else "eval"
    own: Any = None if kind == "math" else kind
    answer = label if label is None or isinstance(label, str) else tuple(label)
    return {**row, "label": "" if label is None and own is None else write_label(Label(answer, split, own, options))}


def _verl(row: Row, label: Labels | None, *_: Any) -> Row:
    prompt = row["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    truth = {"style": "rule", "ground_truth": label}
    return {"data_source": "dare", **row, "prompt": messages, "reward_model": truth}


def _column(row: Row, label: Labels | None, *_: Any) -> Row:
    return {**row, "label": label}


STACKS: Final[Mapping[str, Stack]] = {
    "openrlhf": Stack(
        _openrlhf,
        """--data.prompt_dataset {file} --data.input_key prompt --data.label_key label
DARE_AGENT_PARAMS='{line}'
# The loader shuffles: the share holds in the mean. Rows with a label count as `evaluation` in the log.""",
        options=True,
    ),
    "trl": Stack(
        _column,
        """reward_funcs=DareReward("{url}", label="label")
train_dataset=load_dataset("json", data_files="{file}", split="train")
args=GRPOConfig(shuffle_dataset=False, ...)  # keeps the share in each step""",
    ),
    "verl": Stack(
        _verl,
        """export DARE_URL='{url}'
data.train_files={file} data.shuffle=False  # keeps the share in each step""",
    ),
    "slime": Stack(
        _column,
        """--rm-url '{url}' --prompt-data {file} --input-key prompt --label-key label
# without --rollout-shuffle: that keeps the share in each step""",
    ),
}


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "plan",
        notes=NOTES,
        examples=(
            "dare-reward plan rollouts.jsonl --labels rollouts.labels.jsonl",
            "dare-reward plan rollouts.jsonl --labels rollouts.labels.jsonl --stack trl --out train.jsonl",
            "dare-reward plan rollouts.jsonl --labels gold.jsonl --data prompts.jsonl --stack verl --out train.parquet",
        ),
    )
    add_file(parser, "Rollouts of the policy that you will train")
    parser.add_argument("--stack", choices=tuple(STACKS), help="What you train with (default: show all).")
    parser.add_argument(
        "--share",
        type=float,
        default=SHARE,
        metavar="S",
        help=f"The share of labelled prompts in each step (default: {SHARE:g}).",
    )
    parser.add_argument("--params", metavar="LINE", help="Score the others by this line, and calibrate nothing.")
    parser.add_argument("--by", metavar="FIELD", help="A line for each kind of prompts, as `calibrate --by`.")
    parser.add_argument("--chosen", action="store_true", help="The prompts were chosen, as in `calibrate --chosen`.")
    parser.add_argument(
        "--data", metavar="FILE", help="All prompts to train on, rows with a prompt (default: those of the rollouts)."
    )
    parser.add_argument("--out", metavar="FILE", help="Write the data set, JSON lines or .parquet. It needs --stack.")
    parser.add_argument("--force", action="store_true", help="Replace the file of --out if it exists.")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan, and write its data set where `--out` asks."""
    if not 0 < arguments.share < 1:
        raise RequestError("--share must be above 0 and below 1", code="parameter")
    if arguments.out and not arguments.stack:
        raise RequestError("--out needs --stack: each reads labels from another column", code="parameter")
    lines = {"": _checked(arguments.params)} if arguments.params else _calibrated(arguments)
    rows, labels, kind, options = _rows(arguments)
    stacks = [name for name, stack in STACKS.items() if stack.options or not any(options)]
    if arguments.stack and arguments.stack not in stacks:
        raise RequestError(
            f"{arguments.stack} would read answers with the options A to J, and groups here have others: only "
            f"{', '.join(stacks)} takes options with each prompt",
            code="options",
        )
    known = [i for i, label in enumerate(labels) if label is not None]
    others = [i for i, label in enumerate(labels) if label is None]
    if not known:
        raise RequestError(f"{arguments.file}: no prompt with a prompt text has a right answer", code="label")
    order = mixed(known, others, arguments.share)
    often = sum(labels[i] is not None for i in order)
    if arguments.out:
        _write(arguments, [STACKS[arguments.stack].labelled(rows[i], labels[i], kind, options[i]) for i in order])
    what = f"{len(known)} labelled prompts as `gt` groups, {often} of {len(order)} rows ({often / len(order):.0%})"
    print(f"{what}; {len(others)} others, each once.")
    for group, line in lines.items():
        print(f"others{group and f' of kind {group}'}: {line}")
    if len(lines) > 1:
        print("Adapters send one line for all. Send these in the `params` of each kind's groups (docs/advantages.md).")
    print("A right rollout has reward 1 and any other 0, in `gt` groups and in the others: one scale.")
    line = next(iter(lines.values()))
    url = f"{ADDRESS}?{line}&labelled=gt" + (f"&kind={kind}" if kind != "math" else "")
    for name in [arguments.stack] if arguments.stack else stacks:
        file = arguments.out or ("train.parquet" if name == "verl" else "train.jsonl")
        print(f"\n{name}:\n{textwrap.indent(STACKS[name].lines.format(url=url, line=line, file=file), '  ')}")
    return 0


def _checked(line: str) -> str:
    """A line whose rewards are 0 and 1. RequestError for another method: its groups would have another scale."""
    method, params = read_line(line)
    if words := other_scale(find(method), params):
        raise RequestError(words, code="method")
    return line


def _calibrated(arguments: argparse.Namespace) -> dict[str, str]:
    """The line for all others, or one for each kind that differs."""
    data = read_labelled(
        arguments.file, missing=missing_entropies(arguments), labels=read_labels(arguments), by=arguments.by
    )
    refuse_repeats(data)
    found = preflight(data.groups, data.correct_R, chosen=arguments.chosen, kind_P=data.kinds if arguments.by else None)
    warn(f"verdict: {found.verdict} ({found.reason})")
    if found.kinds is not None and found.kinds.differ:
        return {kind.name: kind.params for kind in found.kinds.kinds}
    return {"": found.calibration.params}


def _rows(arguments: argparse.Namespace) -> tuple[list[Row], list[Labels | None], str, list[Options]]:
    """The prompts to train on, each with its label, the kind of their answers, and the options of each.

    A prompt of --data without rollouts has the options of all others, if these are the same. A prompt whose rollouts
    are all known to be wrong is left out.
    """
    rows, truth, kind, options = _of_rollouts(arguments)
    common = next(iter(options.values())) if len(set(options.values())) == 1 else None
    if arguments.data:
        rows = _dataset(arguments.data)
    rows = list({json.dumps(row["prompt"]): row for row in rows}.values())
    texts = [_text(row["prompt"]) for row in rows]
    wrong = [text in truth and truth[text] is None for text in texts]
    if any(wrong):
        warn(f"{sum(wrong)} prompts left out: no rollout is right, and the right answer is not known")
    if lost := [prompt for prompt, label in truth.items() if label is not None and prompt not in texts]:
        warn(f"{arguments.data}: {len(lost)} labelled prompts are in no row, such as {lost[0][:64]!r}")
    if any(isinstance(label, list) for label in truth.values()):  # a column of Parquet has one type
        truth = {prompt: label and list(listed(label)) for prompt, label in truth.items()}
    kept = [i for i, left in enumerate(wrong) if not left]
    own = [options.get(texts[i], common) for i in kept]
    return [rows[i] for i in kept], [truth.get(texts[i]) for i in kept], kind, own


def _of_rollouts(
    arguments: argparse.Namespace,
) -> tuple[list[Row], dict[str, Labels | None], str, dict[str, Options]]:
    """The prompts of the groups; the labels of some, None where all rollouts are known to be wrong; the kind; and the
    options of each."""
    groups = _good(arguments)
    asked = [g for g in groups if isinstance(g.get("prompt"), str) and g["prompt"]]
    if len(asked) < len(groups):
        warn(f"{len(groups) - len(asked)} groups have no prompt and cannot be trained on")
    kinds = sorted({group.get("kind") or "math" for group in asked})
    if len(kinds) > 1:
        raise RequestError(
            f"answers of several kinds ({', '.join(kinds)}), and a run has one: plan each alone",
            code="kind",
        )
    truth: dict[str, Labels | None] = {}
    options: dict[str, Options] = {}
    for group in asked:
        marks, prompt, label = [r.get("correct") for r in group["rollouts"]], group["prompt"], group.get("label")
        letters = option_tuple(group)
        own = None if letters == option_letters(None) else letters
        if options.setdefault(prompt, own) != own:
            raise RequestError(f"several options for the prompt {prompt[:64]!r}: leave one", code="conflict")
        if letters and label is not None:
            texts = accepted(label, kind="choice", options=letters)
            if not any(choice_letter(text, letters) for text in texts):
                raise RequestError(
                    f"group {group['group_id']}: the label {label!r} is none of the options {''.join(letters)}",
                    code="label",
                )
        if label is not None and truth.get(prompt, label) not in (None, label):
            raise RequestError(f"several labels for the prompt {prompt[:64]!r}: leave one", code="conflict")
        if label is not None:
            truth[prompt] = label
        elif not any(marks) and None not in marks:
            truth.setdefault(prompt, None)
    prompts = (p.messages if isinstance(p := group["prompt"], Chat) else p for group in asked)
    rows = [{"group_id": str(g["group_id"]), "prompt": prompt} for g, prompt in zip(asked, prompts, strict=True)]
    return rows, truth, kinds[0] if kinds else "math", options


def _good(arguments: argparse.Namespace) -> list[Mapping[str, Any]]:
    """The groups that can be scored. What is wrong with others is said, unless calibrating said it."""
    reader = read_groups(arguments)
    good: list[Mapping[str, Any]] = []
    faults = Faults(reader.unit, warn if arguments.params else lambda _: None)
    for number, group in reader:
        try:
            if isinstance(group, RequestError):
                raise group
            prepare([group], limits=UNLIMITED)
            good.append(group)
        except RequestError as error:
            faults.add(number, error)
    faults.say()
    return good


def _dataset(file: str) -> list[Row]:
    values = open_values(file)
    try:
        rows = []
        for number, value in values.items:
            found = value if isinstance(value, RequestError) or not isinstance(value, Mapping) else dict(value)
            prompt = named(found, group=True)[0].get("prompt") if isinstance(found, dict) else None
            messages = prompt if isinstance(prompt, list) else []
            if not isinstance(found, dict) or not ((isinstance(prompt, str) and prompt) or messages):
                raise RequestError(f"{file}: {values.unit} {number}: a row needs a prompt", code="data")
            if not all(isinstance(m, Mapping) for m in messages):
                raise RequestError(f"{file}: {values.unit} {number}: a prompt is a text or messages", code="data")
            rows.append({**found, "prompt": prompt})
        return rows
    finally:
        values.close()


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else text_of(prompt)


def mixed(known: Sequence[int], others: Sequence[int], share: float) -> list[int]:
    """Each of `others` once, and `known` so often, each at least once, that they are that share of the whole.

    The two stand evenly among each other, so that any run of rows has the share.
    """
    times = max(round(len(others) * share / (1 - share)), len(known))
    rng = random.Random(SEED)  # noqa: S311  (an order, no secret)
    passes = (i for _ in range(times) for i in rng.sample(known, len(known)))
    repeated = list(islice(passes, times))
    places = [((k + 0.5) / len(part), i) for part in (repeated, others) for k, i in enumerate(part)]
    return [i for _, i in sorted(places, key=lambda at: at[0])]


def _write(arguments: argparse.Namespace, rows: Sequence[Row]) -> None:
    with ExitStack() as stack:
        if arguments.out.endswith(".parquet"):
            try:
                arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
            except ModuleNotFoundError:
                raise RequestError(
                    f"{arguments.out} needs pyarrow. Run pip install '.[files]' in your checkout.", code="file"
                ) from None
            part = stack.enter_context(whole_file(arguments.out, force=arguments.force))
            parquet.write_table(arrow.Table.from_pylist(list(rows)), part)
        else:
            out = stack.enter_context(text_file(arguments.out, force=arguments.force))
            out.writelines(json.dumps(row) + "\n" for row in rows)
    warn(f"wrote {arguments.out}: {len(rows):,} rows")
