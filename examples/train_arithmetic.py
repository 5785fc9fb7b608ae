"""Train a small language model on arithmetic and sample grouped rollouts with exact token entropies.

What it does, in one process on a CPU:

1. takes the products of two two-digit numbers, prompts such as ``49*27=``, and keeps a part of the pairs of factors,
   in either order, out of the training set;
2. trains a decoder-only transformer over characters from random weights on worked solutions: the partial products of
   units and tens, their sum, an ``Answer:`` line (``343+980=1323``, then ``Answer: 1323``);
3. stops early, when the accuracy of sampled solutions on held-out develop prompts reaches ``--stop-at``: a partly
   trained model disagrees with itself, as a policy in reinforcement learning does;
4. samples ``--rollouts`` solutions for each held-out test prompt at temperature 1 and measures, at every generated
   character (the end of the text included), the entropy in nats of the distribution over the whole vocabulary from
   which that character was drawn;
5. writes one group a line, in the JSON shape of ``POST /reward``, and prints what the sample is like.

No rollout and no prompt is selected by its outcome: test prompts are drawn at random, and each rollout stands as the
model wrote it.

It needs torch (2.13 was used) and takes about two minutes on two cores::

    python -m pip install torch
    python examples/train_arithmetic.py --out examples/arithmetic_m64.jsonl

The same command gave the same file, byte for byte, in three runs on one machine; across machines, torch builds or
thread counts, sums in another order can lead to other weights, and so to other texts and numbers of the same kind.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

CHARACTERS = "\n +*=:0123456789Answer"
END = 0  # ends a text, fills a batch; the id of a character is 1 + its place in CHARACTERS
VOCABULARY_SIZE = 1 + len(CHARACTERS)
ID_OF = {character: 1 + place for place, character in enumerate(CHARACTERS)}
ANSWER_LINE = re.compile(r"(?:^|\n)Answer: ?([0-9]+)$")
MAX_NEW_TOKENS = 40
CONTEXT = 64
IGNORED = -100  # a target that the loss leaves out

Problem = tuple[int, int]
Cache = list[tuple[Tensor, Tensor]]


def prompt_of(problem: Problem) -> str:
    """The question."""
    left, right = problem
    return f"{left}*{right}="


def solution_of(problem: Problem) -> tuple[str, int]:
    """The worked solution (partial products of units and tens, their sum, the answer) and its value."""
    left, right = problem
    tens, units = divmod(right, 10)
    value = left * right
    return f"{left * units}+{left * tens * 10}={value}\nAnswer: {value}", value


def split_problems(held_out: int, seed: int) -> tuple[list[Problem], list[Problem]]:
    """Problems to train on, in both orders of the factors, and `held_out` others, each in one order drawn at random."""
    draw = random.Random(seed)  # noqa: S311  # problems, not secrets
    pairs = list(combinations_with_replacement(range(11, 100), 2))
    draw.shuffle(pairs)
    kept_out = [(b, a) if draw.random() < 0.5 else (a, b) for a, b in pairs[:held_out]]
    known = sorted({problem for a, b in pairs[held_out:] for problem in ((a, b), (b, a))})
    return known, kept_out


def encode(text: str) -> list[int]:
    """Ids of the characters of a text."""
    return [ID_OF[character] for character in text]


def decode(ids: list[int]) -> str:
    """Text of ids, none of which is END."""
    return "".join(CHARACTERS[i - 1] for i in ids)


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feed = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (batch, time, width), keys and values of earlier positions -> the same, grown by this step's."""
        batch, time_steps, width = x.shape
        parts = self.query_key_value(self.norm_attention(x)).view(batch, time_steps, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        # With a past, one position is fed at a time and may look at all of it.
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time_steps, width))
        return x + self.feed(self.norm_feed(x)), (key, value)


class Transformer(nn.Module):
    """Decoder-only transformer over characters with learned positions."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY_SIZE, width)
        self.position = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY_SIZE, bias=False)
        for weight in (self.token.weight, self.position.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """ids (batch, time), cache of earlier positions -> logits (batch, time, vocabulary), the grown cache."""
        start = cache[0][0].shape[2] if cache else 0
        x = self.token(ids) + self.position(torch.arange(start, start + ids.shape[1]))
        grown: Cache = []
        for layer, block in enumerate(self.blocks):
            x, past = block(x, cache[layer] if cache else None)
            grown.append(past)
        return self.head(self.norm(x)), grown


@dataclass(frozen=True)
class Rollout:
    """One sampled solution; an entropy for each character, and one for the end where the model ended the text."""

    text: str
    token_entropies: list[float]
    finish_reason: str
    correct: bool

    @property
    def answer(self) -> int | None:
        """The number of the ``Answer:`` line, if the text ends with one."""
        found = ANSWER_LINE.search(self.text) if self.finish_reason == "stop" else None
        return int(found[1]) if found else None


@torch.inference_mode()
def sample(model: Transformer, problem: Problem, count: int, seed: int) -> list[Rollout]:
    """Draw `count` rollouts at temperature 1, no top-k, no top-p.

    The entropy of a step is H = -sum_v p(v) ln p(v) over the whole vocabulary, in float64, of the p that is drawn
    from.
    """
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    logits, cache = model(torch.tensor([encode(prompt_of(problem))] * count))
    ids: list[list[int]] = [[] for _ in range(count)]
    entropies: list[list[float]] = [[] for _ in range(count)]
    ended = [False] * count
    for _ in range(MAX_NEW_TOKENS):
        log_p = functional.log_softmax(logits[:, -1].double(), dim=-1)
        p = log_p.exp()
        step_entropies = (-(p * log_p).sum(dim=-1)).clamp_min(0.0).tolist()
        drawn = torch.multinomial(p, 1, generator=generator)
        for row, token in enumerate(drawn[:, 0].tolist()):
            if ended[row]:
                continue
            entropies[row].append(step_entropies[row])
            if token == END:
                ended[row] = True
            else:
                ids[row].append(token)
        if all(ended):
            break
        logits, cache = model(drawn, cache)
    _, value = solution_of(problem)
    rollouts = []
    for row in range(count):
        rollout = Rollout(decode(ids[row]), entropies[row], "stop" if ended[row] else "length", correct=False)
        rollouts.append(replace(rollout, correct=rollout.answer == value))
    return rollouts


def batch_of(problems: list[Problem]) -> tuple[Tensor, Tensor]:
    """Inputs and targets (batch, time); the prompt and the fill are left out of the loss."""
    inputs, targets = [], []
    for problem in problems:
        prompt, solution = encode(prompt_of(problem)), encode(solution_of(problem)[0])
        inputs.append(prompt + solution)
        targets.append([IGNORED] * (len(prompt) - 1) + solution + [END])
    longest = max(map(len, inputs))
    return (
        torch.tensor([row + [END] * (longest - len(row)) for row in inputs]),
        torch.tensor([row + [IGNORED] * (longest - len(row)) for row in targets]),
    )


def train(model: Transformer, problems: list[Problem], develop: list[Problem], options: argparse.Namespace) -> None:
    """AdamW with a linear warm-up, until the accuracy on the develop prompts reaches the target."""
    draw = random.Random(options.seed)  # noqa: S311
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    began = time.perf_counter()
    for step in range(1, options.max_steps + 1):
        model.train()
        optimiser.param_groups[0]["lr"] = options.lr * min(1.0, step / 100)
        inputs, targets = batch_of(draw.choices(problems, k=options.batch))
        logits, _ = model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % options.probe_every == 0:
            rollouts = [r for i, p in enumerate(develop) for r in sample(model, p, 8, options.seed + i)]
            accuracy = statistics.fmean(r.correct for r in rollouts)
            seconds = time.perf_counter() - began
            print(f"step {step}: loss {loss.item():.4f}, develop accuracy {accuracy:.3f}, {seconds:.0f} s", flush=True)
            if accuracy >= options.stop_at:
                return


def right_below_wrong(rollouts: list[Rollout]) -> float | None:
    """AUROC: the chance that a right rollout has less mean entropy than a wrong one; ties count half."""
    right, wrong = (
        [statistics.fmean(r.token_entropies) for r in rollouts if r.correct is side and r.answer is not None]
        for side in (True, False)
    )
    if not right or not wrong:
        return None
    wins = sum((x < y) + 0.5 * (x == y) for x in right for y in wrong)
    return wins / (len(right) * len(wrong))


def describe(name: str, problems: list[Problem], groups: list[list[Rollout]]) -> None:
    """Print accuracy, spread of answers, plurality and what the entropies tell."""
    rollouts = [rollout for group in groups for rollout in group]
    votes = [Counter(r.answer for r in group if r.answer is not None) for group in groups]
    # `most_common` keeps first-seen order among equals.
    pluralities = [counts.most_common(1)[0][0] if counts else None for counts in votes]
    labels = [solution_of(problem)[1] for problem in problems]
    aurocs = [a for a in map(right_below_wrong, groups) if a is not None]
    wrong = sum(plurality != label for plurality, label in zip(pluralities, labels, strict=True))
    outvoted = sum(
        plurality != label and label in counts
        for plurality, label, counts in zip(pluralities, labels, votes, strict=True)
    )
    print(
        f"{name}: {len(groups)} groups of {len(groups[0])}, "
        f"accuracy {statistics.fmean(r.correct for r in rollouts):.3f}, "
        f"distinct answers median {statistics.median(map(len, votes))} (from {min(map(len, votes))} "
        f"to {max(map(len, votes))}), plurality wrong in {wrong} (right answer present in {outvoted} of them), "
        f"within-group AUROC of mean entropy {statistics.fmean(aurocs):.3f} over {len(aurocs)} groups, "
        f"without an answer {sum(r.answer is None for r in rollouts)}, "
        f"cut off {sum(r.finish_reason == 'length' for r in rollouts)}, "
        f"tokens a rollout {statistics.fmean(len(r.token_entropies) for r in rollouts):.1f}, "
        f"mean entropy {statistics.fmean(statistics.fmean(r.token_entropies) for r in rollouts):.4f}"
    )


def group_line(place: int, problem: Problem, rollouts: list[Rollout]) -> str:
    """One group in the JSON shape of `POST /reward`; entropies to four significant digits."""
    group = {
        "group_id": f"arithmetic-{place}",
        "kind": "math",
        "prompt": prompt_of(problem),
        "label": str(solution_of(problem)[1]),
        "entropy_source": "exact",
        "entropy_mode": "temperature",
        "rollouts": [
            {
                "text": rollout.text,
                "token_entropies": [float(f"{entropy:.4g}") for entropy in rollout.token_entropies],
                "finish_reason": rollout.finish_reason,
                "correct": rollout.correct,
            }
            for rollout in rollouts
        ],
    }
    return json.dumps(group, separators=(",", ":"))


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description="Train a small arithmetic model and sample grouped rollouts.")
    parser.add_argument("--out", type=Path, default=Path("arithmetic_m64.jsonl"), help="file to write")
    parser.add_argument("--prompts", type=int, default=16, help="test prompts written to the file")
    parser.add_argument("--rollouts", type=int, default=64, help="rollouts of a prompt")
    parser.add_argument("--measured", type=int, default=256, help="test prompts for the printed measures")
    parser.add_argument(
        "--held-out",
        type=int,
        default=320,
        help="problems kept out of training: first the test prompts, the rest for the stop",
    )
    parser.add_argument("--stop-at", type=float, default=0.4, help="develop accuracy that ends the training")
    parser.add_argument("--probe-every", type=int, default=50, help="steps between two looks at that accuracy")
    parser.add_argument("--max-steps", type=int, default=3000, help="end of the training in any case")
    parser.add_argument("--batch", type=int, default=64, help="problems a step")
    parser.add_argument("--lr", type=float, default=1e-3, help="peak learning rate")
    parser.add_argument("--width", type=int, default=96, help="width of the model")
    parser.add_argument("--layers", type=int, default=3, help="layers")
    parser.add_argument("--heads", type=int, default=3, help="attention heads")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--seed", type=int, default=20, help="seed of everything that is drawn")
    return parser.parse_args(arguments)


def main() -> None:
    """Train, sample, write, print."""
    options = options_of()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    known, held_out = split_problems(options.held_out, options.seed)
    test, develop = held_out[: options.measured], held_out[options.measured :]

    model = Transformer(options.width, options.layers, options.heads)
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters} parameters, {VOCABULARY_SIZE} tokens, {len(known)} problems to train on", flush=True)
    train(model, known, develop, options)

    groups = [sample(model, p, options.rollouts, options.seed + 1000 + i) for i, p in enumerate(test)]
    written = list(zip(test, groups, strict=True))[: options.prompts]
    with options.out.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(group_line(place, *pair) + "\n" for place, pair in enumerate(written))
    describe("written", [p for p, _ in written], [g for _, g in written])
    describe("measured", test, groups)


if __name__ == "__main__":
    main()
