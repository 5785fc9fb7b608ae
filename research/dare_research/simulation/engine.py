"""A saturated engine, event by event: when does a step end, with all votes at once and with votes in waves?

The engine runs at most `slots` sequences; the others wait in the order in which they came. While b sequences run, a
decoding step takes 1 + b/knee: below the knee the weights are read once for all (one more sequence is nearly free),
above it each sequence costs its share. Lengths are log-normal. A group's wave begins when the last rollout of the wave
before has ended, and the step ends with its last rollout.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

TRAINED, VOTES = 32, 64
# Waves of 8 that a group needs, 0 to 4, under `predictive`: mostly clear votes, and open ones.
CLEAR, OPEN = (0.62, 0.08, 0.05, 0.05, 0.20), (0.20, 0.12, 0.10, 0.08, 0.50)


@dataclass(frozen=True, slots=True)
class Engine:
    slots: int = 256
    knee: float = 64.0
    mean: float = 1000.0
    sigma: float = 0.6


def step_time(engine: Engine, waves: Sequence[Sequence[int]], seed: int) -> tuple[float, float]:
    """End of the step, and tokens, for groups whose waves have these sizes.

    All running sequences advance alike, so time is counted in tokens that each has made, and a sequence that starts at
    v with length l ends at v + l, whatever else runs.
    """
    rng = np.random.default_rng(seed)
    draw: Callable[[int], list[float]] = lambda n: (  # noqa: E731
        rng.lognormal(np.log(engine.mean) - engine.sigma**2 / 2, engine.sigma, n).tolist()
    )
    left = [0] * len(waves)
    begun = [0] * len(waves)
    waiting: deque[tuple[int, float]] = deque()
    running: list[tuple[float, int]] = []
    clock = made = tokens = 0.0

    def begin(p: int) -> None:
        size = waves[p][begun[p]]
        begun[p] += 1
        left[p] = size
        waiting.extend((p, length) for length in draw(size))

    for p in range(len(waves)):
        begin(p)
    while waiting or running:
        while waiting and len(running) < engine.slots:
            p, length = waiting.popleft()
            tokens += length
            heapq.heappush(running, (made + length, p))
        end, p = running[0]
        clock += (end - made) * (1 + len(running) / engine.knee)
        made = end
        heapq.heappop(running)
        left[p] -= 1
        if not left[p] and begun[p] < len(waves[p]):
            begin(p)
    return clock, tokens


Step = Callable[[Engine, Sequence[Sequence[int]], int], tuple[float, float]]


def compared(
    engine: Engine, prompts: int, shares: Sequence[float], *, wave: int = 8, seeds: int = 8, step: Step = step_time
) -> tuple[float, float]:
    """Time and tokens of a step in waves, over those of a step with all votes at once."""
    times, tokens = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, prompts])
        needed = rng.choice(len(shares), prompts, p=shares)
        count = [min(-(-8 * int(n) // wave), (VOTES - TRAINED) // wave) for n in needed]
        every = step(engine, [[VOTES]] * prompts, seed)
        some = step(engine, [[TRAINED, *[wave] * n] for n in count], seed + 1000)
        times.append(some[0] / every[0])
        tokens.append(some[1] / every[1])
    return float(np.mean(times)), float(np.mean(tokens))


def break_even_rows() -> tuple[tuple[str, ...], list[list[str]]]:
    """The table of research/docs/stopping.md: time of a step by load and size of a wave, tokens at the last one."""
    sizes = (8, 16, 32)
    head = ("length", "rollouts over slots", *(f"{votes}, waves of {w}" for votes in ("clear", "open") for w in sizes))
    rows = []
    for sigma in (0.3, 0.6, 1.0):
        engine = Engine(sigma=sigma)
        for prompts in (1, 2, 4, 8, 16, 32, 64):
            found = [compared(engine, prompts, shares, wave=w) for shares in (CLEAR, OPEN) for w in sizes]
            cells = [f"{time:.2f} ({tokens:.2f})" for time, tokens in found]
            rows.append([f"sigma {sigma}", f"{prompts * VOTES / engine.slots:g}", *cells])
    return head, rows
