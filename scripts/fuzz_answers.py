"""Coverage-guided fuzzing of the answer keys: `python scripts/fuzz_answers.py -max_total_time=300 [corpus]`.

Needs atheris. Every str must have a key, without an exception, in little time, the same one twice, and the same one
with blanks around it. The seeds are the answers of tests/data/answer_pairs.jsonl.
"""

import json
import sys
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dare_reward"]):
    from dare_reward.answers.classes import grade
    from dare_reward.answers.keys import math_key
    from dare_reward.answers.rules import DEFAULT

LIMIT_S = 0.5  # instrumented code is some ten times slower
PAIRS = Path(__file__).parent.parent / "tests" / "data" / "answer_pairs.jsonl"
slowest = 0.0


def one(data: bytes) -> None:
    global slowest  # noqa: PLW0603
    text = (
        data.decode("utf-8", "surrogatepass" if data[:1] < b"\x80" else "replace")
        if _decodes(data)
        else data.decode("latin-1")
    )
    start = time.process_time()
    key = math_key(text, DEFAULT)
    took = time.process_time() - start
    if took > slowest:
        slowest = took
        print(f"slowest so far {took * 1000:.0f} ms: {text[:80]!r}", file=sys.stderr)
    assert took < LIMIT_S, "slow"
    assert math_key(text, DEFAULT) == key, "not a function"
    assert (key is not None) == grade(text, text), "not reflexive"
    if len(text) < 1_900:
        assert math_key(f" {text}\n", DEFAULT) == key or not text.strip(), "blanks matter"


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def seed(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = (json.loads(line) for line in PAIRS.read_text().splitlines())
    for n, text in enumerate(sorted({p[side] for p in pairs for side in "ab"})):
        (folder / f"seed{n}").write_bytes(text.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    if folders := [a for a in sys.argv[1:] if not a.startswith("-")]:
        seed(Path(folders[0]))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
