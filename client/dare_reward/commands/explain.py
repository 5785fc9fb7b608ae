"""`dare-reward explain FILE.jsonl --group ID`: how one group got its rewards, step by step."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from dare_reward._scoring.request import READING, kind_of, option_tuple, read_answers
from dare_reward._scoring.score import score
from dare_reward.analysis.unanswered import reason
from dare_reward.answers import classify
from dare_reward.commands.tables import group_table, table
from dare_reward.errors import RequestError
from dare_reward.files.reader import Reader
from dare_reward.methods import settle
from dare_reward.openrlhf import COMPARING
from dare_reward.reply import GroupReply

from .closing import Closing
from .group_lines import add_file, add_method, chosen_params, read_groups

__all__ = ["register"]

FLAGS: Mapping[str, str] = {
    "all_invalid": "no rollout has an answer: all rewards are 0",
    "all_pruned": "no answer reached tau; on_all_pruned says what then",
    "single_answer": "all answers agree",
    "tie": "several answers have the most votes",
    "zero_variance": "all rewards are equal: group-normalised advantages are 0",
    "low_entropy": "an answer's uncertainty is below 0.02 nats: a repetition loop looks like this",
    "u_gt_1": "an answer's uncertainty is above 1 nat, where 1 - u would be negative; u_norm says what then",
    "guessed_answer": "an answer was taken from a text that announces none, as unmarked allows",
    "same_value_apart": "two answers have one value and other units or names, so they were not merged",
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
    "one_context": "sub-groups are as large as the pool: gmae is the majority vote; set group_size, or add votes",
    "no_span": "an answer does not stand in its text as it was read: none of its tokens can be masked",
    "unproved": "no verdict proves the most voted answer",
    "pseudo_reference": "no reference was sent: the probabilities are taken to be the majority answer's",
}


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser("explain", help="show how one group got its rewards")
    add_file(parser, "groups")
    parser.add_argument("--group", required=True, help="its group_id (line-N for a group without one)")
    add_method(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 explained; 1 the group cannot be scored; 2 there is no such group."""
    params = chosen_params(arguments)[arguments.method]
    closing = Closing()
    group = _find(read_groups(arguments), arguments.file, arguments.group)
    reply = score([group], params, method=arguments.method)
    found = reply.groups[0]
    method, values = settle(arguments.method, params)
    print(f"method {method.name}: {method.summary} [{method.paper}; {method.evidence}]")
    print("parameters: " + ", ".join(f"{k}={v}" for k, v in values.items()))
    print(f"config_id {reply.config_id[:12]}\n")
    print(group_table(found))
    closing.add(group, found.valid)
    if found.error is not None:
        closing.say()
        return 1
    for flag in found.flags or ():
        print(f"\n{flag}: {FLAGS.get(flag, '')}".rstrip(": "))
    print(f"\nrollouts\n{_rollouts(group, found)}")
    for line in _reasons(group, values):
        print(line)
    print("\n" + ", ".join(f"{k} {v:.4g}" for k, v in (found.diagnostics or {}).items() if isinstance(v, int | float)))
    closing.say()
    return 0


def _find(reader: Reader, path: str, group_id: str) -> Mapping[str, Any]:
    for number, group in reader:
        if isinstance(group, RequestError):
            continue
        if group["group_id"] == group_id or group_id == f"{reader.unit}-{number}":
            return group
    raise RequestError(f"{path} has no group {group_id!r}", code="group")


def _reasons(group: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Why rollouts have no answer, and which answers stayed apart although their values are one."""
    kind, options, rollouts = kind_of(group), option_tuple(group), group["rollouts"]
    reading = {k: v for k, v in values.items() if k in READING}
    found = read_answers(rollouts, [False] * len(rollouts), kind=kind, options=options, **reading)
    lines = [
        f"rollout {r.get('id', i)} has no answer: {e.why}"
        for i, (r, e) in enumerate(zip(rollouts, found, strict=True))
        if e.answer is None
    ]
    if values.get("mode") == "clean":
        comparing = {k: v for k, v in values.items() if k in COMPARING}
        classes = classify([e.answer for e in found], kind=kind, options=options, **comparing)
        lines += [
            f"{classes.answers[a]} and {classes.answers[b]} stay apart: one value, other units or names"
            for a, b in classes.apart
        ]
    return ["", *lines] if lines else []


def _rollouts(group: Mapping[str, Any], found: GroupReply) -> str:
    values = found.rewards if found.rewards is not None else found.advantages
    rows = [
        [
            str(rollout.get("id", i)),
            (answer if answer is not None else f"(none: {reason(rollout)})")[:48],
            "-" if value is None else f"{value:.6f}",
            "" if keep else "no",
        ]
        for i, (rollout, answer, value, keep) in enumerate(
            zip(group["rollouts"], found.answers or (), values or (), found.keep or (), strict=True)
        )
    ]
    return table(("rollout", "answer", "reward" if found.rewards is not None else "advantage", "kept"), rows)
