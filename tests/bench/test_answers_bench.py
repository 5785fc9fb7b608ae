"""What reading and comparing answers costs: `pytest tests/bench/test_answers_bench.py -s`.

CPU of this process, caches cold unless said. Math-Verify is timed on the same step where it is installed.
"""

import json
import random
import threading
import time
from collections import Counter
from functools import partial

import httpx
import pytest
from growth import scan

from dare_reward.answers import canonical, classify, extract
from dare_reward.answers.keys import _cached_math, math_key
from dare_reward.answers.rules import DEFAULT

pytestmark = pytest.mark.bench
FILLER = "We expand the product, collect the terms and use that the sum of the roots is known. " * 24


def contest_answer(rng):
    """As in AIME, AMC and MATH-500: mostly integers and fractions, now and then a root, a multiple of pi, a pair."""
    n, m = rng.randint(-50, 999), rng.randint(2, 60)
    forms = [str(n)] * 14 + [
        f"\\frac{{{n}}}{{{m}}}", f"\\frac{{{n}}}{{{m}}}", f"{n}/{m}", f"{n / 8}", f"{m}\\sqrt{{{abs(n) + 2}}}", f"{m}\\pi", f"({n}, {m})", f"{m}\\%",
        f"{abs(n)},{rng.randint(100, 999)}", f"x = {n}",
    ]  # fmt: skip
    return rng.choice(forms)


def step(seed):
    """32 groups of 64 texts of 2 kB: some six answers a group."""
    rng = random.Random(seed)
    groups = []
    for _ in range(32):
        pool = [contest_answer(rng) for _ in range(6)]
        groups.append([f"{FILLER[:1950]}So the answer is \\boxed{{{rng.choice(pool)}}}." for _ in range(64)])
    return groups


def hard(i):
    return f"\\frac{{\\sqrt{{{i + 2}}}+\\pi^{{{i % 5 + 2}}}}}{{{i % 97 + 3}}}-\\sin\\frac{{{i % 13 + 1}\\pi}}{{{i % 11 + 7}}}x"


def cpu(function, runs=5):
    best = 99.0
    for _ in range(runs):
        start = time.thread_time()
        function()
        best = min(best, time.thread_time() - start)
    return best * 1e3


def read_step(groups):
    return [classify([extract(text).answer for text in texts]) for texts in groups]


def test_a_step_of_contest_answers(report):
    seeds = iter(range(100))

    def cold():
        _cached_math.cache_clear()
        return read_step(fresh)

    fresh = step(next(seeds))
    cold()  # loads mpmath once
    fresh = step(next(seeds))
    cost = cpu(cold)
    floor = cpu(lambda: [text.rfind("\\boxed") for texts in fresh for text in texts])
    kinds = Counter(k for c in read_step(fresh) for k, n in zip(c.kinds, c.answers))
    share = ", ".join(f"{k} {n / kinds.total():.0%}" for k, n in kinds.most_common())
    report(
        "32 x 64 texts of 2 kB, contest answers, cold",
        f"{cost:.1f} ms CPU ({share})",
        f"rfind {floor:.2f} ms",
        "at most 30 ms",
    )
    warm = cpu(lambda: read_step(fresh))
    report("the same, cached", f"{warm:.1f} ms CPU", "", "")
    verify = pytest.importorskip("math_verify", reason="Math-Verify is not installed: no comparison")
    start = time.process_time()
    for texts in fresh:
        seen = [verify.parse(text) for text in texts]
        first = []
        for answer in seen:
            if not any(verify.verify(other, answer) for other in first):
                first.append(answer)
    theirs = (time.process_time() - start) * 1e3
    report(
        "the same by Math-Verify (greedy classes)",
        f"{theirs:.0f} ms CPU, {theirs / cost:.0f} x ours",
        "",
        "at least 100 x",
    )
    assert theirs > 20 * cost


def test_distinct_hard_expressions(report, server):
    answers = [hard(i) for i in range(2048)]
    _cached_math.cache_clear()
    start = time.thread_time()
    kinds = Counter(canonical(a).kind for a in answers)
    cost = time.thread_time() - start
    report("2,048 distinct hard expressions", f"{cost:.2f} s CPU ({dict(kinds)})", "", "at most 1.5 s")
    assert kinds["fingerprint"] == 2048
    body = json.dumps(
        {
            "groups": [
                {"rollouts": [{"answer": a + "+1", "mean_entropy": 0.2} for a in answers[i : i + 64]]}
                for i in range(0, 2048, 64)
            ]
        }
    )
    slowest = 0.0
    with httpx.Client(timeout=60) as client:
        client.get(server.url + "/health")
        thread = threading.Thread(
            target=server.cost, args=(body.encode(), {"content-type": "application/json"}), kwargs={"runs": 1}
        )
        thread.start()
        while thread.is_alive():
            start = time.perf_counter()
            client.get(server.url + "/health")
            slowest = max(slowest, time.perf_counter() - start)
            time.sleep(0.005)
        thread.join()
    report("slowest /health meanwhile", f"{slowest * 1e3:.0f} ms", "", "under 100 ms")


def test_hostile_texts(report, inputs_of):
    """The suite counts and compares what these cost; here are the milliseconds."""
    texts = inputs_of("unit/answers/test_hostile.py").HOSTILE
    costs = [cpu(partial(math_key, text, DEFAULT), runs=3) for text in texts]
    report(f"the dearest of {len(texts)} hostile answers", f"{max(costs):.1f} ms CPU", "", "at most 50 ms")
    hostile = inputs_of("unit/answers/test_extract_hostile.py")
    made = [*map(hostile.repeated, hostile.PATTERNS), *hostile.WHOLE.values()]
    for kind in hostile.KINDS:
        costs = [cpu(partial(hostile.reader(kind), make(hostile.LONG)), runs=3) for make in made]
        floor = cpu(lambda: scan("x" * hostile.LONG), runs=3)
        report(
            f"the dearest of {len(made)} hostile texts of 256,000 characters, {kind}",
            f"{max(costs):.1f} ms CPU",
            f"a plain scan {floor:.1f} ms",
            "at most 50 ms",
        )
