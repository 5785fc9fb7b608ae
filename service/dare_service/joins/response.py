"""The response in a `query` of OpenRLHF, which holds the prompt too."""

from __future__ import annotations

from bisect import bisect_left

# What an assistant's turn begins with, if the prompt cannot be found in the query.
TURNS = (
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<start_of_turn>model",
    "<｜Assistant｜>",
    "<|assistant|>",
    "[/INST]",
)
TAILS = (1024, 256, 64)  # characters, without spaces
MARGIN = 1 << 16  # characters that a decoded prompt may have beyond twice its own


def response_of(query: str, prompt: str, most: int) -> tuple[str, bool]:
    """The last `most` characters of what was generated, and whether the prompt was found before it.

    A query is decode(encode(prompt) + response), with special tokens: it may begin with a token that the prompt lacks,
    its spaces may differ, and of a long prompt only the end may be there. So after the whole prompt its last characters
    are looked for, without regard to spaces. No search looks at more than a multiple of prompt and `most`: other
    threads wait for it.
    """
    last = max(0, len(query) - most)
    if query.startswith(prompt):
        return query[max(len(prompt), last) :], True
    head, wanted = query[: 2 * len(prompt) + MARGIN], _bare(prompt)
    for tail in dict.fromkeys(wanted[-length:] for length in TAILS if wanted):
        if (at := _bare(head).find(tail)) >= 0:
            end = bisect_left(range(len(head)), at + len(tail), key=lambda end: len(_bare(head[:end])))
            return query[max(end, last) :], True
    ends = (at + len(turn) for turn in TURNS if (at := query.rfind(turn, last)) >= 0)
    return query[max(ends, default=last) :], False


def _bare(text: str) -> str:
    return "".join(text.split())
