"""Base models that are kept as files, so that runs of different machines begin from the same weights.

`NAME.safetensors` holds the weights as float16 and the model's sizes; `SHA256SUMS` beside it is checked before a file
is read. Training goes on in float32, from the rounded weights.
"""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from dare_reward.errors import ConfigError

from ..results import SUMS, write_sums
from .tiny_model import ModelSize, new_model, new_tokenizer

PATTERN = "*.safetensors"


def kept_file(folder: Path) -> Path:
    """The file that stands for the folder of a model."""
    return folder.with_name(f"{folder.name}.safetensors")


def keep(model: Any, shape: ModelSize, folder: Path) -> Path:
    """Write the file of a model and the checksums of all files beside it; ConfigError if the file exists."""
    import torch
    from safetensors.torch import save_file

    file = kept_file(folder)
    if file.exists():
        raise ConfigError(f"{file} exists: runs may have begun from it")
    file.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.float16).contiguous() for name, value in model.state_dict().items()}
    part = file.with_suffix(".part")
    save_file(weights, part, metadata={name: str(value) for name, value in asdict(shape).items()})
    part.rename(file)
    write_sums(file.parent, PATTERN)
    return file


def load_kept(file: Path) -> tuple[Any, Any]:
    """Model and tokenizer; ConfigError unless the file is the one whose checksum was written down."""
    from safetensors import safe_open

    sums = file.with_name(SUMS)
    lines = sums.read_text(encoding="utf-8").splitlines() if sums.exists() else []
    stated = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if stated.get(file.name) != sha256(file.read_bytes()).hexdigest():
        raise ConfigError(f"{file} is not the file of {sums}: bring it from the repository again")
    with safe_open(file, "pt") as opened:
        said = opened.metadata()
        weights = {name: opened.get_tensor(name).float() for name in opened.keys()}  # noqa: SIM118  (no mapping)
    tokenizer = new_tokenizer()
    model = new_model(ModelSize(**{name: int(said[name]) for name in ("hidden", "layers")}), tokenizer, seed=0)
    model.load_state_dict(weights)
    return model.eval(), tokenizer
