"""How many Python functions of this project a request calls: a measure of its cost that no noise can reach.

    python tests/calls.py            prints the counts beside those of tests/data/calls.json
    python tests/calls.py --write    puts them there; with a count that grew, --why "..." is asked for and kept there

Each request is sent once before, so that caches are warm and what loads late is loaded. What Python's versions count
differently is not counted: comprehensions, generators and coroutines. Nor is what other packages do.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import sys
import threading
from pathlib import Path

from serving import posted, told

ROOT = Path(__file__).parents[1]
ROOMS = ("client", "service", "trainer")
TABLE = Path(__file__).parent / "data" / "calls.json"
SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
INLINED = frozenset({"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>"})
ROLLOUTS = [{"answer": a, "mean_entropy": h, "num_tokens": 9} for a, h in (("4", 0.2), ("4", 0.3), ("5", 0.7))]
TEXTS = [rf"So it is \boxed{{\frac{{\sqrt{{{n}}}}}{{2}}}}." for n in (3, 5)]  # not one twice: keys are cached


class Calls:
    """Counts between `begin` and `end`, on every thread that began after it was made."""

    def __init__(self) -> None:
        self.sources = tuple(str(ROOT / room) + os.sep for room in ROOMS)
        self.on, self.files = False, []
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def begin(self) -> None:
        self.files, self.on = [], True

    def end(self) -> dict[str, int]:
        self.on = False
        return {"calls": len(self.files), "modules": len(set(self.files))}

    def _event(self, frame, event, _):
        code = frame.f_code
        if event != "call" or not self.on or code.co_flags & SUSPENDS or code.co_name in INLINED:
            return
        if code.co_filename.startswith(self.sources):
            self.files.append(code.co_filename)


def application():
    from dare_service.app import create_app
    from dare_service.settings import Settings

    return create_app(Settings(run_log="off"))  # whose threads would work beside the request


async def post(app, path: str, content: bytes, media: bytes = b"application/json") -> None:
    sent = await posted(told(app), path, content, media=media)
    assert sent[0]["status"] == 200, sent


def rollout(prompt: str, answer: str) -> bytes:
    return json.dumps({"query": [f"{prompt} It is \\boxed{{{answer}}}."], "prompts": [prompt], "labels": [""]}).encode()


async def joined(app, calls: Calls, prompt: str) -> dict[str, int]:
    """The rollout that completes a group of two."""
    first = asyncio.ensure_future(post(app, "/get_reward?group_size=2&run=r-000000001", rollout(prompt, "4")))
    while not app.state.dare.openrlhf.join.waiting:  # noqa: ASYNC110  (the join tells nobody)
        await asyncio.sleep(0.001)
    calls.begin()
    await post(app, "/get_reward?group_size=2&run=r-000000001", rollout(prompt, "5"))
    counted = calls.end()
    await first
    return counted


async def answer(calls: Calls, text: str) -> dict[str, int]:
    from dare_reward.answers import classify, extract

    calls.begin()
    classify([extract(text).answer])
    return calls.end()


async def measured() -> dict[str, dict[str, int]]:
    calls, app = Calls(), application()
    import numpy as np

    from dare_reward.groups import Ragged
    from dare_reward.wire import MEDIA_TYPES, pack

    async def posted(*request) -> dict[str, int]:
        calls.begin()
        await post(app, *request)
        return calls.end()

    tokens = Ragged(np.linspace(0.1, 2, 18), np.full(6, 3))
    frame = pack({"groups": [{"rollouts": [{"answer": a} for a in "445"]}] * 2}, {"token_entropies": tokens})
    json_of = {"groups": [{"rollouts": ROLLOUTS}]}
    requests = {
        "grouped JSON": lambda _: posted("/v1/reward", json.dumps(json_of).encode()),
        "frame": lambda _: posted("/v1/reward", bytes(frame), MEDIA_TYPES[0].encode()),
        "OpenRLHF rollout": lambda n: joined(app, calls, f"What is {n}?"),
        "answer text": lambda n: answer(calls, TEXTS[n]),
    }
    out = {}
    for name, send in requests.items():
        await send(0)
        out[name] = await send(1)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="Print the counts alone.")
    parser.add_argument("--write", action="store_true", help="Put them into the table.")
    parser.add_argument("--why", help="Why a request calls more than before.")
    asked = parser.parse_args()
    os.environ["DARE_LOG"] = "off"
    counts = asyncio.run(measured())
    if asked.json:
        print(json.dumps(counts))
        return 0
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {"requests": {}, "raised": []}
    before = table["requests"]
    for name, now in counts.items():
        print(f"{name:18} calls {now['calls']:4} ({before.get(name, now)['calls']:4})  ", end="")
        print(f"modules {now['modules']:3} ({before.get(name, now)['modules']:3})")
    grown = [name for name, now in counts.items() if now["calls"] > before.get(name, now)["calls"]]
    if asked.write:
        if grown and not asked.why:
            print(f"{', '.join(grown)}: more calls than before. Say --why, it is kept in {TABLE.name}", file=sys.stderr)
            return 2
        if grown:
            change = ", ".join(f"{n} {before[n]['calls']} -> {counts[n]['calls']}" for n in grown)
            table["raised"].append(f"{change}: {asked.why}")
        TABLE.write_text(json.dumps(table | {"requests": counts}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
