"""Entropies of the same tokens by a transformers forward pass: `python rescore.py MODEL GENERATED OUT TEMPERATURE`."""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


def main():
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    generated = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    temperature = float(sys.argv[4])
    out = {}
    for key in ("rows", "topk"):
        out[key] = []
        for row in generated.get(key, []):
            with torch.no_grad():
                logits = (
                    model(torch.tensor([row["prompt"] + row["ids"]])).logits[0, len(row["prompt"]) - 1 : -1].double()
                )
            p = torch.softmax(logits / temperature, -1)
            out[key].append(torch.special.entr(p).sum(-1).tolist())
    Path(sys.argv[3]).write_text(json.dumps(out), encoding="utf-8")


if __name__ == "__main__":
    main()
