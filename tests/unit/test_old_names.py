"""Names that the documents gave to users, and that have moved, work for one release and say where they went."""

import importlib
import re
import sys
from pathlib import Path

import pytest

MOVED = {
    "dare_reward.stacks.common": ("dare_reward.stacks.scorer", "Scorer"),
    "dare_trainer.config": ("dare_trainer.agent.config", "read_config"),
    "dare_trainer.executor": ("dare_trainer.agent.executor", "Executor"),
    "dare_trainer.reference": ("dare_trainer.vllm.reference_probability", "reference_probs"),
    "dare_trainer.token_entropy": ("dare_trainer.vllm.token_entropy", "token_entropies"),
}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_works_and_warns(old):
    new, name = MOVED[old]
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=re.escape(f"{old} has moved to {new}")):
        module = importlib.import_module(old)
    assert getattr(module, name) is getattr(importlib.import_module(new), name)


def test_nobody_here_uses_an_old_name():
    for room in ("client", "service", "trainer", "docs", "examples", "tests"):
        for file in (
            f for f in (ROOT / room).rglob("*") if f.suffix in {".py", ".md", ".toml"} and f != Path(__file__)
        ):
            text = file.read_text(encoding="utf-8")
            assert not re.search(rf"(?:from|import) (?:{'|'.join(map(re.escape, MOVED))})\b", text), file


def test_the_migration_table_has_them():
    text = (ROOT / "CHANGELOG.md").read_text()
    for old, (new, _) in MOVED.items():
        assert f"| `{old}` | `{new}` |" in text
