"""From a value of a file to groups or single rollouts, in the shapes in which engines and trainers write them.

a group              {"rollouts": [...]}, or a list of texts or objects under another name of `GROUP_NAMES`
vLLM                 a RequestOutput as a dictionary: {"request_id", "prompt", "outputs": [{"text", "logprobs"}, ...]}
OpenAI               a chat or completions reply with n > 1: {"choices": [...]}, or a line of a batch's result
TRL                  a completions table: {"step", "prompt", "completion", ...}, one rollout a row
verl                 a rollout dump: {"input", "output", "gts", "step", ...}, one rollout a line; a data set's row with
                     "responses" and {"reward_model": {"ground_truth"}}
a rollout            any object with a text or an answer
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isnan
from typing import Any, Final

from ..answers.rollouts import number_text, spoken
from ..errors import RequestError, unknown_name
from ..inputs import GROUP_FIELDS, ROLLOUT_FIELDS, Field
from ..membership import PLACE, Member, label_text, place_of, plain
from ..messages import asked_text, is_messages, last_reply

GROUP_NAMES, ROLLOUT_NAMES = (
    {f.name: f.other_names for f in fields.values() if f.other_names} for fields in (GROUP_FIELDS, ROLLOUT_FIELDS)
)
# Lists by these names beside the rollouts hold an entry for each; `answer` is the data set's.
COLUMNS: Final = {*ROLLOUT_FIELDS, *(other for names in ROLLOUT_NAMES.values() for other in names)} - {"answer"}
PER_TOKEN: Final = {f.name for f in ROLLOUT_FIELDS.values() if f.per_token and f.name != "token_mask"}
# What tells the groups of a file with one rollout a line, the first that is there; without any the prompt does.
GROUPING: Final = ("group_id", "prompt_id", "uid", "question_id", "problem_id", "task_id")


def named(record: Mapping[str, Any], *, group: bool) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """`record` by our names; which other name stood for which of ours; and the names that mean nothing here."""
    fields, others = (GROUP_FIELDS, GROUP_NAMES) if group else (ROLLOUT_FIELDS, ROLLOUT_NAMES)
    out = {name: value if group else _cell(value, fields[name]) for name, value in record.items() if name in fields}
    used: dict[str, str] = {}
    for ours, names in others.items():
        if out.get(ours) is None:
            other = next((n for n in names if _cell(record.get(n), fields[ours]) is not None), None)
            if other is not None:
                out[ours], used[other] = record[other], ours
    if "token_mask" in used.values() and not PER_TOKEN & out.keys():  # a trainer's mask, and nothing that it masks
        del out["token_mask"]
        used = {other: ours for other, ours in used.items() if ours != "token_mask"}
    unknown = [name for name, value in record.items() if name not in fields and name not in used and value is not None]
    return out, used, unknown


JSON = Mapping[str, Any]
LISTED = "candidates of an engine"  # no name of a field: a file's own topk_logprobs stay
ENGINE = frozenset(  # what vLLM and OpenAI say of a request beside its completions
    {
        "choices", "created", "encoder_prompt", "encoder_prompt_token_ids", "finished", "kv_transfer_params",
        "lora_request", "metrics", "model", "multi_modal_placeholders", "num_cached_tokens", "object", "outputs",
        "prompt_logprobs", "prompt_token_ids", "service_tier", "system_fingerprint", "usage",
    }
)  # fmt: skip
LOGGED = frozenset({"v", "time", "seconds", "reply"})  # what a line of a run log holds beside its group
SCORED_BY: Final = ("method", "config_id")  # of a logged reply
PROMPTS: Final = ("prompt", *GROUP_NAMES["prompt"])


@dataclass(slots=True)
class Notes:
    """What the reader did that the file does not say: names that it took for ours, and names that it left out."""

    taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    unlabelled: int = 0


def is_logged(value: Any) -> bool:
    """Whether a value is a line of a run log: a group, and the reply that it got."""
    return isinstance(value, Mapping) and value.keys() >= LOGGED and "rollouts" in value


Row = Member[tuple[dict[str, Any], dict[str, Any]]]  # of a rollout that stands alone: its group's fields, and its own
Shape = dict[str, Any] | Row


def shape_of(value: Any, notes: Notes, *, top: bool) -> Shape | RequestError:
    """The group or the rollout that a value holds, or what is wrong with it.

    top   the candidates that an engine lists for each token are kept
    """
    try:
        return _shape(value, notes, top=top)
    except RequestError as error:
        return error


def _shape(value: Any, notes: Notes, *, top: bool) -> Shape:
    """A group or a rollout. RequestError if it is neither."""
    if not isinstance(value, Mapping):
        raise RequestError(f"must be an object with a rollout or a group, not {_kind(value)}", code="type")
    if isinstance(value.get("groups"), list):
        why = "must be a group, not a request of several: write each on a line, as jq -c '.groups[]' does"
        raise RequestError(why, code="type")
    record = of_verl(value)
    reply = _engine(record)
    if reply is not record:
        listed = [rollout.pop(LISTED, None) for rollout in reply["rollouts"]]
        if top:
            _keep_candidates(reply["rollouts"], listed)
        if len(reply["rollouts"]) == 1 and ("custom_id" in reply or prompt_texts(reply)):
            return _ungrouped(_alone(reply), notes)
    lists = [n for n in ("rollouts", *GROUP_NAMES["rollouts"]) if isinstance(reply.get(n), list)]
    return _group(reply, notes) if "rollouts" in reply or lists else _ungrouped(reply, notes)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


# --- engines ----------------------------------------------------------------------------------------------------------


def _engine(value: JSON) -> JSON:
    """An engine's reply as a group, what it lists for each token under LISTED; anything else as it is."""
    reply, batched = value.get("response"), "custom_id" in value
    beside: Collection[str] = ENGINE
    choices, outputs = value.get("choices"), value.get("outputs")
    if isinstance(reply, Mapping) and (batched or "choices" in reply):
        body = reply.get("body", reply)
        if value.get("error") or not isinstance(body, Mapping) or not isinstance(body.get("choices"), list):
            raise RequestError("this request of the batch failed and has no choices. Send it again.", code="engine")
        choices, beside = body["choices"], {"response", "error", *(["id"] if batched else [])}
    if isinstance(choices, list):
        rollouts = [_choice(choice) for choice in choices]
    elif isinstance(outputs, list) and outputs and all(isinstance(o, Mapping) and "text" in o for o in outputs):
        rollouts = [_completion(output) for output in outputs]
    else:
        return value
    return {**{k: v for k, v in value.items() if k not in beside}, "rollouts": rollouts}


def _alone(reply: JSON) -> JSON:
    """A reply with one completion as a rollout: its siblings are in other requests of its prompt."""
    row = {k: v for k, v in reply.items() if k not in {"rollouts", "id", "request_id"}}
    if "custom_id" in row:
        row["prompt_id"] = row.pop("custom_id")
    return {**row, **reply["rollouts"][0]}


def _choice(choice: Any) -> dict[str, Any]:
    """One of an OpenAI reply's choices."""
    if not isinstance(choice, Mapping):
        raise RequestError("choices must hold objects", code="engine")
    message, logprobs = choice.get("message"), choice.get("logprobs")
    text = spoken(message.get("content")) if isinstance(message, Mapping) else choice.get("text")
    out = {"finish_reason": choice.get("finish_reason")}
    if isinstance(logprobs, Mapping):
        if isinstance(tokens := logprobs.get("content"), list):  # of a chat: an object for each token
            tokens = [t if isinstance(t, Mapping) else {} for t in tokens]
            names = {"token_logprobs": "logprob", "top_logprobs": "top_logprobs"}
            logprobs = {ours: [token.get(name) for token in tokens] for ours, name in names.items()}
        out |= {"token_logprobs": logprobs.get("token_logprobs"), LISTED: logprobs.get("top_logprobs")}
    return {k: v for k, v in out.items() if v is not None} | {"text": text}


def _completion(output: JSON) -> dict[str, Any]:
    """One CompletionOutput of vLLM; what it says of itself beside these keys is left out."""
    kept = {k: v for k, v in output.items() if k in {*ROLLOUT_FIELDS, "entropies", "entropy", "is_correct"}}
    top, ids = output.get("logprobs"), output.get("token_ids")
    if isinstance(ids, list) and output.get("cumulative_logprob") is not None:
        kept |= {"sum_logprob": output["cumulative_logprob"], "num_tokens": len(ids)}
    if isinstance(top, list) and isinstance(ids, list) and len(top) == len(ids):
        rows = zip(top, ids, strict=True)
        kept["token_logprobs"] = [_number(row.get(f"{id_}") if isinstance(row, Mapping) else row) for row, id_ in rows]
        kept[LISTED] = top
    return kept


def _number(entry: Any) -> Any:
    """Of {"logprob": x} or x."""
    return entry.get("logprob") if isinstance(entry, Mapping) else entry


def _candidates(row: Any) -> list[Any]:
    """The log-probabilities of {token: {"logprob": x}}, {token: x} or [{"logprob": x}].

    vLLM lists the sampled token beside the k largest. Its rank tells where it is none of them.
    """
    entries = list(row.values()) if isinstance(row, Mapping) else row if isinstance(row, list) else []
    ranks = [e.get("rank") if isinstance(e, Mapping) else None for e in entries]
    return [_number(e) for e, r in zip(entries, ranks, strict=True) if not isinstance(r, int) or r <= len(entries)]


def _keep_candidates(rollouts: Sequence[dict[str, Any]], listed: Sequence[Any]) -> None:
    """All tokens of a group keep as many as the shortest list: engines list the sampled token beside the k largest."""
    for rollout, rows in zip(rollouts, listed, strict=True):
        if rows and isinstance(rows, list):
            rollout["topk_logprobs"] = [_candidates(row) for row in rows]
    with suppress(TypeError):  # no numbers: refused where they are read
        rows = [row for rollout in rollouts for row in rollout.get("topk_logprobs", ()) if len(row) > 1]
        for rollout in rollouts if (k := min(map(len, rows), default=0)) else ():
            rollout["topk_logprobs"] = [sorted(row, reverse=True)[:k] for row in rollout.get("topk_logprobs", ())]


def of_verl(value: JSON) -> JSON:
    """A row of a data set of verl, with its answer by a name of ours; anything else as it is."""
    truth = value.get("reward_model")
    if isinstance(truth, Mapping) and "ground_truth" in truth:
        return {**{k: v for k, v in value.items() if k != "reward_model"}, "ground_truth": truth["ground_truth"]}
    return value


# --- groups and rollouts ----------------------------------------------------------------------------------------------


def _group(value: JSON, notes: Notes) -> dict[str, Any]:
    group, used, unknown = named(value, group=True)
    rollouts = group.get("rollouts")
    if not isinstance(rollouts, list):
        return group  # what reads the group says what a list of rollouts is
    members = [_member(r) for r in rollouts]
    columns = [n for n in unknown if n in COLUMNS and isinstance(value[n], list)]
    if name := next((n for n in columns if len(value[n]) != len(rollouts)), ""):
        entries = f"{len(value[name])} entries for {len(rollouts)} rollouts"
        raise RequestError(f"{name} has {entries}. Give it one for each rollout.", code="length")
    for name in columns:
        for member, entry in zip(members, value[name], strict=True):
            if isinstance(member, dict):
                member.setdefault(name, entry)
    if "answer" in unknown and group.get("label") is None:
        group["label"], used["answer"] = _truth(value["answer"], len(rollouts)), "label"
    beside = LOGGED if is_logged(value) else ()
    _note(notes, used, [n for n in unknown if n not in {*columns, *used, *PLACE, *PROMPTS, *beside}])
    group["rollouts"] = [_rollout(m, notes) for m in members]
    place_of(value)  # names or numbers
    _keep_place(group, value)
    return _finished(group, prompt_texts(value), notes)


def _truth(answer: Any, count: int) -> Any:
    """A data set's answer beside `count` rollouts. RequestError for a list that may be what each of them says."""
    if isinstance(answer, list) and len(answer) == count and any(entry != answer[0] for entry in answer):
        why = "holds a different entry for each rollout. Name it label if each is right, or put each into its rollout."
        raise RequestError(why, loc=("answer",), code="ambiguous")
    return answer


def _member(value: Any) -> Any:
    """A rollout that is a text, or a list of messages, as an object."""
    if isinstance(value, str) or is_messages(value):
        return {"text": value}
    return dict(value) if isinstance(value, Mapping) else value


def _rollout(value: Any, notes: Notes) -> Any:
    """A rollout by our names, with the values that other tools write."""
    if not isinstance(value, Mapping):
        return value  # what reads the group says what a rollout is
    out, used, unknown = named(value, group=False)
    if unknown and not {"answer", "text"} & out.keys():
        raise RequestError(
            f"a rollout has neither text nor answer: {unknown_name('field', str(unknown[0]), ROLLOUT_FIELDS)}",
            code="unknown_field",
        )
    _note(notes, used, unknown)
    if isinstance(said := out.get("text"), Mapping):
        out["text"] = said.get("content", None if "role" in said else said)
    if "text" in out:
        out["text"] = last_reply(out["text"]) if is_messages(out["text"]) else spoken(out["text"])
    return _typed(out)


def _typed(out: dict[str, Any]) -> dict[str, Any]:
    """A rollout whose values have our types where JSON, pandas or a trainer writes another."""
    if out.get("trained", True) is None:  # a table's empty cell
        del out["trained"]
    for name, value in out.items():
        if ROLLOUT_FIELDS[name].type == "int":
            out[name] = _whole(value)
    for name in ("answer", "id"):
        if isinstance(out.get(name), int | float) and not isinstance(out[name], bool):
            out[name] = number_text(out[name])
    if isinstance(out.get("correct"), int | float) and out["correct"] in {0, 1}:
        out["correct"] = bool(out["correct"])
    if isinstance(mask := out.get("token_mask"), list) and all(m in (0, 1) for m in mask):
        out["token_mask"] = [bool(m) for m in mask]
    column, mask = out.get("token_logprobs"), out.get("token_mask")
    if isinstance(column, list) and -9999 in column and isinstance(mask, list | None):  # an engine's unknown number
        known = [x != -9999 for x in column]
        out["token_logprobs"] = [x if own else 0.0 for x, own in zip(column, known, strict=True)]
        if mask is None or len(mask) == len(known):  # another length is refused where masks are read
            out["token_mask"] = [own and m for own, m in zip(known, known if mask is None else mask, strict=True)]
    return out


def _finished(group: dict[str, Any], asked: Sequence[str] | None, notes: Notes) -> dict[str, Any]:
    for name in ("group_id", "reference"):
        if name in group:
            group[name] = read_value(group[name], None)
    if "label" in group:
        group["label"] = read_value(group["label"], "", kind=group.get("kind"), options=group.get("options"))
    if isinstance(label := group.get("label"), str) and not label.strip():
        notes.unlabelled += 1
        del group["label"]
    if group.get("group_id") is None:
        group.pop("group_id", None)
    if "group_size" in group:
        group["group_size"] = _whole(group["group_size"])
    if asked is not None:
        group["prompt"] = "\n".join(asked)
    return group


def _ungrouped(value: JSON, notes: Notes) -> Row:
    """A rollout that stands alone: rows of one system prompt differ in what else they ask."""
    rollout, used, unknown = named(value, group=False)
    shared, also, left = named(value, group=True)
    if not {"text", "answer"} & rollout.keys():
        keys = ", ".join(str(k)[:32] for k in list(value)[:8]) or "an empty object"
        raise RequestError(
            f"it has neither rollouts nor a text, only {keys}.{_likely(value)} docs/data.md lists the names that are "
            "read.",
            code="unknown_field",
        )
    # Beside a text, `answer` is the data set's; not beside a table's empty cell.
    if "answer" in rollout and rollout.get("text") is not None:
        shared["label"] = shared.get("label", rollout.pop("answer"))
        notes.taken["answer", "label"] += 1
    asked = prompt_texts(value)
    stated = ((name, plain(value.get(name), name)) for name in GROUPING)
    name, key = next(((name, key) for name, key in stated if key is not None), (None, None))
    if name is None and asked is None:
        names = ", ".join((*GROUPING, "prompt"))
        raise RequestError(f"the rollout does not say which prompt it answers. Give it one of {names}.", code="missing")
    if name is None and {k for k, v in rollout.items() if v is not None} == {"answer"}:
        raise RequestError(
            "a prompt with an answer and no text is a data set. Generate rollouts for it, and name their file.",
            code="data",
        )
    group = {k: v for k, v in shared.items() if k not in {"rollouts", "group_id", "id", "meta"}}
    _keep_place(group, value)
    if name is not None:
        group["group_id"] = value[name]
    ignored = [n for n in unknown if n in left and n not in {name, "answer", *PLACE, *PROMPTS}]
    _note(notes, {**used, **{k: v for k, v in also.items() if v != "group_id"}}, ignored)
    finished = _finished({**group, "rollouts": []}, asked, notes)
    label, size = finished.get("label"), finished.get("group_size")
    if label is not None and not all(isinstance(text, str) for text in (label if isinstance(label, list) else [label])):
        raise RequestError("must be a text, a number or a list of them", loc=("label",), code="type")
    if not isinstance(finished.get("kind"), str | None):
        raise RequestError(f"must be {GROUP_FIELDS['kind'].rule}", loc=("kind",), code="value")
    if size is not None and type(size) is not int:
        raise RequestError("must be an integer", loc=("group_size",), code="type")
    place, own = place_of(value), _rollout(rollout, Notes())
    index, content = own.get("id"), json.dumps(own, sort_keys=True, default=str)
    return Member(
        (finished, own), key=key, prompt=asked, place=place, kind=finished.get("kind"),
        options=finished.get("options"), label=label,
        size=size, index=index if isinstance(index, str) else None, content=content,
    )  # fmt: skip


def prompt_texts(value: JSON) -> tuple[str, ...] | None:
    """What a record asks: each of its prompt's fields that no other holds. None where it does not say."""
    texts: list[str] = []
    for name in PROMPTS:
        said = asked_text(value.get(name), whole=name == "messages")
        if said and not any(said in text for text in texts):
            texts = [*(text for text in texts if text not in said), said]
    return tuple(texts) or None


def _likely(value: JSON) -> str:
    """Which name of the rollouts or the text one of these keys was meant to be, as far as one is close."""
    known = ["rollouts", *GROUP_NAMES["rollouts"], "text", "answer", *ROLLOUT_NAMES["text"]]
    strange = [str(key)[:32] for key in list(value)[:32] if key not in GROUP_FIELDS and key not in ROLLOUT_FIELDS]
    near = (get_close_matches(key, known, n=1, cutoff=0.75) for key in strange)
    return next((f" Did you mean {names[0]}?" for names in near if names), "")


def _keep_place(group: dict[str, Any], value: JSON) -> None:
    """Where in a run a line stands, and when and by what it was scored, beside what its own `meta` says."""
    place = {"step": _whole(value.get("step", value.get("global_step"))), "run": value.get("run")}
    if is_logged(value) and isinstance(reply := value["reply"], Mapping):
        place |= {"log_time": value["time"], **{name: reply.get(name) for name in SCORED_BY}}
    meta, known = group.get("meta"), {k: v for k, v in place.items() if v is not None}
    if known and isinstance(meta, Mapping | None):
        group["meta"] = {**(meta or {}), **known}


def _note(notes: Notes, used: Mapping[str, str], unknown: Sequence[str]) -> None:
    for other, ours in used.items():
        notes.taken[other, ours] += 1
    for name in unknown:
        notes.ignored[str(name)[:64]] += 1


def _is_nan(value: Any) -> bool:
    """What pandas writes where there is nothing."""
    return isinstance(value, float) and isnan(value)


def _cell(value: Any, field: Field) -> Any:
    """What a table's cell holds: None where pandas writes NaN. Of a number NaN may be a mistake, which is refused."""
    return None if field.type != "float" and _is_nan(value) else value


def _whole(value: Any) -> Any:
    """An integer as pandas writes it beside nothing, which is None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if _is_nan(value) else value


def read_value(value: Any, nothing: Any, **choice: Any) -> Any:
    """A number as its text, what is not there as `nothing`; a list of one is that one. `choice`: of `label_text`."""
    if isinstance(value, list):
        values = [read_value(v, nothing, **choice) for v in value]
        return values[0] if len(values) == 1 else values
    if _is_nan(value):
        return nothing
    return label_text(value, **choice) if isinstance(value, int | float) and not isinstance(value, bool) else value
