"""A request's memory: at most 4 x its body and 64 MiB, whatever it holds.

Each body is scored in a process of its own, a fork of one that has loaded everything, whose greatest resident size is
compared with that before. As a script this prints the figures: python tests/service/test_memory.py all
"""

import importlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dare_reward.errors import DareError
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.methods import methods, specs
from dare_reward.wire import pack
from dare_service.body import form
from dare_service.log import Runs
from dare_service.metrics import Metrics
from dare_service.reward_request import ReceivedRequest, score_request
from dare_service.run_recorder import RunRecorder
from dare_service.settings import Settings

MIB = 1 << 20
BESIDE, TIMES = 64 * MIB, 4
MOST = Settings().max_request_rollouts
# So many times fewer rollouts than the greatest request has, with arrays so many times longer: as much if dense.
FEWER = 4
TOKENS = 2000
SOME, LONG = MOST // FEWER, TOKENS * FEWER
USUAL = {"answer": "12", "mean_entropy": 0.25, "num_tokens": 812, "trained": True, "finish_reason": "stop"}
USUAL |= {"correct": True}


def dumped(body):
    return json.dumps(body, separators=(",", ":")).encode()


def repeated(count, item, size=1024):
    """A body of `count` rollouts, all alike."""
    group = b'{"rollouts":[' + b",".join([item] * size) + b"]}"
    return b'{"groups":[' + b",".join([group] * (count // size)) + b"]}"


def one_of_each():
    """Every array input in one rollout of a great request; the others are empty."""
    shapes = {"scalar": 0, "tokens": [0] * LONG, "list": [1] * LONG, "vector": [0] * (2 * LONG)}
    given = {name: shapes.get(f.shape, [[0, 0]] * LONG) for name, f in FIELDS.items()}
    given |= {"token_mask": [True] * LONG, "answer_tokens": [0, LONG], "step_ends": [*range(1, LONG + 1)]}
    for name in {f.gives[0] for f in FIELDS.values() if f.gives} | {"num_tokens", "sum_logprob"}:
        given.pop(name, None)
    second = {"second_group": [{"answer": "1"}], "teacher_group": [{"answer": "1"}], "label": "1", "reference": "1"}
    rollouts = [{}] * 1023
    groups = [{"rollouts": [{"answer": "1", **given}, *rollouts], **second}]
    return dumped({"groups": [*groups, *[{"rollouts": [{}, *rollouts]}] * (SOME // 1024 - 1)]})


def ids(lengths, distinct):
    """A frame of one group whose rollouts have so many token ids."""
    count = sum(lengths)
    values = np.arange(count) if distinct else np.zeros(count)
    groups = {"groups": [{"rollouts": [{"answer": "1"}] * len(lengths)}]}
    return pack(groups, {"token_ids": Ragged(values.astype(np.int32), np.array(lengths))})


def inside(element, count, key="meta"):
    value = b"[" + b",".join([element] * count) + b"]"
    return b'{"groups":[],"%s":%s}' % (key.encode(), b'{"a":' + value + b"}" if key == "meta" else value)


def trace(rows):
    return b'{"topk_logprobs":%b}' % rows


def traces(element, count):
    return b'{"groups":[{"rollouts":[{"answer":"1","topk_logprobs":[' + b",".join([element] * count) + b"]}]}]}"


def asked_for(name):
    """What one says of a method in a query."""
    declared = specs(methods()[name])
    told = {s.name: "1" for s in declared if s.required}
    return {"method": name, **told, **{s.name: "true" for s in declared if s.name == "allow_experimental"}}


EACH, FREQUENCY, TRACES = one_of_each(), {"missing_entropy": "frequency"}, {"method": "deepconf"}
ANSWERS = [{"answer": str(i)} for i in range(1024)]
SHORT, LONG_TRACE = (dumped([[0, -1]] * count) for count in (1, TOKENS))
BODIES = {
    **{f"one of each input, {m.name}": (asked_for(m.name), lambda: EACH) for m in methods().values() if not m.defaults},
    "nothing in any rollout": ({}, lambda: repeated(MOST, b"{}")),
    "usual rollouts": (FREQUENCY, lambda: repeated(MOST, dumped(USUAL))),
    "a million rollouts": ({}, lambda: repeated(1 << 20, b"{}")),
    "distinct answers": (FREQUENCY, lambda: dumped({"groups": [{"rollouts": ANSWERS}] * (MOST // 1024)})),
    "one trace among empty rollouts": (TRACES, lambda: repeated(MOST, b"{}").replace(b"{}", trace(LONG_TRACE), 1)),
    "one trace among short ones": (TRACES, lambda: repeated(MOST, trace(SHORT)).replace(SHORT, LONG_TRACE, 1)),
    "distinct token ids": (FREQUENCY, lambda: ids([6250] * 64, distinct=True)),
    "one rollout with token ids": (FREQUENCY, lambda: ids([400_000] + [1] * 63, distinct=False)),
    "empty lists": ({}, lambda: inside(b"[]", MIB)),
    "empty lists, few": ({}, lambda: inside(b"[]", MIB // 6)),
    "empty objects, few": ({}, lambda: inside(b"{}", MIB // 8)),
    "numbers": ({}, lambda: inside(b"0", 4 * MIB)),
    "numbers, few": ({}, lambda: inside(b"0", MIB // 2)),
    "an unknown key": ({}, lambda: inside(b"[]", MIB // 6, key="x")),
    "keys": ({}, lambda: dumped({"groups": [], "meta": {str(i): 0 for i in range(250_000)}})),
    "rows of two": (TRACES, lambda: traces(b"[0,0]", MIB // 8)),
    "rows of one": (TRACES, lambda: traces(b"[0]", MIB // 5)),
    "long numbers": ({}, lambda: traces(b"[-0.12345678901234567,-2.1234567890123456]", MIB)),
}


def nobody():
    """Whom nobody leaves."""


def peak_of(recorder, name):
    """The body's bytes, the greatest resident size beyond that before, and the status: from a fork."""
    asked, make = BODIES[name]
    body = bytearray(make())
    kind = form({"content-type": "application/json" if body[:1] == b"{" else "application/vnd.safetensors"}, Settings())
    readable, writable = os.pipe()
    if not (child := os.fork()):
        before, status = resident(), 200
        try:
            score_request(Settings(), recorder, ReceivedRequest(body, kind, asked, "id"), nobody)
        except DareError as error:
            status = error.status
        most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(writable, json.dumps([len(body), most - before, status]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        return json.load(pipe)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak():
    command = [sys.executable, __file__, "all"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    figures = {name: figure for name, *figure in map(json.loads, done.stdout.splitlines())}
    assert figures.keys() == BODIES.keys()
    scored = {name for name, (_, _, status) in figures.items() if status == 200}
    assert scored >= {name for name in BODIES if name.startswith("one of each input")}
    assert {status for _, _, status in figures.values()} == {200, 413, 422}
    assert {name: figure for name, figure in figures.items() if figure[1] > TIMES * figure[0] + BESIDE} == {}


def main(names):
    recorder = RunRecorder(Settings(), Runs(Metrics()))
    kind = form({"content-type": "application/json"}, Settings())
    importlib.import_module("scipy.optimize")  # as is what the methods load at their first use
    for method in methods():
        body = bytearray(b'{"groups":[{"rollouts":[{"answer":"x+1"}]}]}')
        score_request(Settings(), recorder, ReceivedRequest(body, kind, asked_for(method), ""), nobody)
    recorder.flush()  # what its threads still do would move what a fork begins with
    for name in names:
        print(json.dumps([name, *peak_of(recorder, name)]), flush=True)


if __name__ == "__main__":
    main(BODIES if sys.argv[1:] == ["all"] else sys.argv[1:])
