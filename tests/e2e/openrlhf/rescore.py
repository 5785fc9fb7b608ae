"""Entropies of the same tokens by a transformers forward pass: `python rescore.py MODEL GENERATED OUT TEMPERATURE`."""

import json
import sys

import torch
from transformers import AutoModelForCausalLM


def main():
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    with open(sys.argv[2], encoding="utf-8") as file:
        generated = json.load(file)
    temperature = float(sys.argv[4])
    out = {}
    for key in ("rows", "topk"):
        out[key] = []
        for row in generated.get(key, []):
            with torch.no_grad():
                logits = model(torch.tensor([row["prompt"] + row["ids"]])).logits[0, len(row["prompt"]) - 1 : -1].double()
            p = torch.softmax(logits / temperature, -1)
            out[key].append(torch.special.entr(p).sum(-1).tolist())
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump(out, file)


if __name__ == "__main__":
    main()
