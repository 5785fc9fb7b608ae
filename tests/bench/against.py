"""The costs of a request and of a start, of two checkouts in turns: what a change costs or saves.

    python tests/bench/against.py                      against where this branch left main
    python tests/bench/against.py --against 008bfc1    against a commit, of which a worktree is made, or a folder

CPU milliseconds of a service of each checkout with its children (a page or a run log may run in one), all threads, the
best of many requests sent in turns; and of the processes that start. Both run in this interpreter: what one checkout
needs and the other does not is installed. Calls and modules are of one small request, by this checkout's measure. The
goals of requests of groups are ratios, the others are of this checkout alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path

import httpx
from measure import FRAME, JSON, SERVE, Server, bare, command_cpu, encoded, environment, frame, started, with_means

ROOT = Path(__file__).parents[2]
STARTS = {
    "import dare_reward": "import dare_reward",
    "dare-reward --help": "from dare_reward.cli import main; main(['--help'])",
    "import dare_service.app": "import dare_service.app",
}
RATIOS = {"128 x 64 means": 0.45, "frame 32 x 64 x 1,024": 0.9, "frame 96 MiB": 0.9}  # goals of this over the other
GOALS = {  # of this alone
    "import dare_reward": 300,
    "dare-reward --help": 350,
    "rollout post / health": 1.15,
    "calls of grouped JSON": 170,
    "modules of grouped JSON": 18,
    "calls of OpenRLHF rollout": 260,
}
POSTS = 64  # rollouts of a group
QUIET = 0.3  # seconds after a request in which what it leaves behind is done


def of_tree(tree: Path) -> dict[str, str]:
    """The environment in which the checkout is imported."""
    return environment(PYTHONPATH=":".join(str(tree / d) for d in ("client", "service", "trainer", ".entries")))


def copied(tree: Path, folder: Path) -> Path:
    """The checkout's packages with the commands that its pyproject.toml names, and no other's, in a folder."""
    for room in ("client", "service", "trainer"):
        shutil.copytree(tree / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    commands = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["entry-points"]["dare_reward.commands"]
    lines = [f"{name} = {place}" for name, place in commands.items() if not place.startswith("dare_research")]
    for name, entries in (("dare_reward", ["[dare_reward.commands]", *lines]), ("dare_reward_research", [])):
        (described := folder / ".entries" / f"{name}-0.dist-info").mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
        (described / "entry_points.txt").write_text("\n".join(entries))
    return folder


def request_cpu(server: Server, client: httpx.Client, content: bytes, headers: dict) -> tuple[float, float]:
    """CPU milliseconds until the reply, and of all that comes of it."""
    before = server.cpu()
    reply = client.post(f"{server.url}/v1/reward?detail=rewards", content=content, headers=headers)
    assert reply.status_code == 200, reply.text[:300]
    done = server.cpu()
    time.sleep(QUIET)
    return done - before, server.cpu() - before


async def rollout_over_health(server: Server, run: int) -> float:
    """A rollout of a group of `POSTS`, all in flight at once, beside `/health` in the same way."""
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=POSTS)) as client:
        costs = []
        for n in range(-1, 4):
            prompt = f"{run} {n}: What is 2+2?"
            sent = {"query": [f"{prompt} It is \\boxed{{4}}."], "prompts": [prompt], "labels": [""]}
            url = f"{server.url}/get_reward?group_size={POSTS}&run=r{run}-000000001"
            begun = server.cpu()
            replies = await asyncio.gather(*(client.post(url, json=sent) for _ in range(POSTS)))
            between = server.cpu()
            await asyncio.gather(*(client.get(server.url + "/health") for _ in range(POSTS)))
            assert {reply.status_code for reply in replies} == {200}
            costs.append((between - begun, server.cpu() - between))
    return min(post for post, _ in costs[1:]) / min(probe for _, probe in costs[1:])


def counts(tree: Path) -> dict[str, float]:
    """Calls and modules of small requests; nothing where this checkout's measure does not fit the other."""
    out = {}
    for request in ("grouped JSON", "OpenRLHF rollout"):
        measure = [sys.executable, str(ROOT / "tests" / "calls.py"), "--tree", str(tree), "--only", request, "--json"]
        done = subprocess.run(measure, env=of_tree(tree), cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            out |= {f"{what} of {request}": n for what, n in json.loads(done.stdout)[request].items()}
    return out


def git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def checkout(what: str | None, stack: ExitStack) -> Path:
    """The folder to compare with; of a commit, a worktree that is removed at the end."""
    if what and Path(what).is_dir():
        return Path(what).resolve()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "tree"
    git("worktree", "add", "-q", "--detach", str(folder), what or git("merge-base", "HEAD", "main"))
    stack.callback(git, "worktree", "remove", "--force", str(folder))
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="A folder or a commit (default: the merge base with main).")
    parser.add_argument("--runs", type=int, default=10, help="Requests of each kind and checkout (default: 10).")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = {
            "other": copied(checkout(asked.against, stack), folder / "other"),
            "this": copied(ROOT, folder / "this"),
        }
        best: dict[tuple[str, str], float] = {}

        def keep(what: str, name: str, value: float) -> None:
            best[what, name] = min(value, best.get((what, name), float("inf")))

        for _ in range(asked.runs):
            for what, program in STARTS.items():
                for name, tree in trees.items():
                    keep(what, name, command_cpu(program, env=of_tree(tree))[0])
        servers = {name: stack.enter_context(started(["-c", SERVE], of_tree(tree))) for name, tree in trees.items()}
        client = stack.enter_context(httpx.Client(timeout=120))
        bodies = {
            "128 x 64 means": (encoded(with_means(bare(128, 64))), JSON),
            "frame 32 x 64 x 1,024": (frame(32, 64, 1024), FRAME),
            "frame 96 MiB": (frame(128, 64, 3072), FRAME),
        }
        for what, (content, headers) in bodies.items():
            for n in range(asked.runs + 2):
                for name, server in servers.items():
                    until, all_of_it = request_cpu(server, client, content, headers)
                    if n > 1:
                        keep(what, name, until)
                        keep(what + ", and after it, with children", name, all_of_it)
        for n in range(3):
            for name, server in servers.items():
                keep("rollout post / health", name, asyncio.run(rollout_over_health(server, n)))
        for name, tree in trees.items():
            best.update({(what, name): value for what, value in counts(tree).items()})
        print(f"\n{'CPU ms, best of ' + str(asked.runs):58}{'other':>10}{'this':>10}{'ratio':>8}  goal")
        for what in dict.fromkeys(what for what, _ in best):
            other, this = best.get((what, "other"), math.nan), best[what, "this"]
            value, goal = (this / other, RATIOS[what]) if what in RATIOS else (this, GOALS.get(what))
            verdict = (
                "" if goal is None else f"{goal:g} " + ("met" if value <= goal else f"missed by {value / goal - 1:.0%}")
            )
            print(f"{what:58}{other:10.2f}{this:10.2f}{this / other:8.2f}  {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
