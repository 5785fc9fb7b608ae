"""OpenRLHF's two dialects of flags: `--rollout.batch_size` since 0.10.2, `--rollout_batch_size` before.

Which flags a release has is read from the release itself, without importing it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any, Final

from dare_reward.errors import ConfigError, unknown_name

from .recipes import recipe_file

OLDEST: Final = (0, 9, 1)  # since then one rollout, one executor; agents of before have another shape
NESTED: Final = (0, 10, 2)

# What is composed for, and checked against, where no OpenRLHF is installed.
RELEASE: Final = "0.11.2"
NEWEST: Final = frozenset(recipe_file("newest_flags")["flags"])
FLAT: Final[Mapping[str, str]] = recipe_file("flat_flags")


def dialect(release: str) -> str:
    """nested, or flat."""
    release_numbers = tuple(int(n) for n in release.split(".")[:3] if n.isdigit())
    if release_numbers < OLDEST:
        raise ConfigError(f"OpenRLHF {release}: the agent and the join need {'.'.join(map(str, OLDEST))} or later")
    return "nested" if release_numbers >= NESTED else "flat"


def installed(name: str = "openrlhf") -> str | None:
    """The release in this environment."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def flags_of(source: str) -> frozenset[str]:
    """The flags that a release's `cli/train_ppo_ray.py` declares. Optimiser flags are declared per prefix in a loop."""
    flags = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
            and node.args
        ):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                flags.add(name.value.removeprefix("--"))
            elif isinstance(name, ast.JoinedStr):
                tail = "".join(str(part.value) for part in name.values if isinstance(part, ast.Constant))
                flags |= {f"{prefix}{tail.removeprefix('--')}" for prefix in ("actor", "critic")}
    return frozenset(flags)


def installed_flags() -> frozenset[str] | None:
    """Those of the release in this environment; None without one."""
    try:
        listed = files("openrlhf") or ()
    except PackageNotFoundError:
        return None
    for entry in listed:
        if str(entry).endswith("openrlhf/cli/train_ppo_ray.py"):
            return flags_of(Path(str(entry.locate())).read_text(encoding="utf-8"))
    return None


def translate(flags: Mapping[str, Any], release: str, known: frozenset[str] | None = None) -> dict[str, Any]:
    """`flags` under the names of `release`; ConfigError for one that it does not have.

    known   those of the release, if it is installed; else the newest release that this version knows decides
    """
    if known is None and (unknown := sorted(flags.keys() - NEWEST)):
        sentence = unknown_name("flag of OpenRLHF", f"--{unknown[0]}", [f"--{n}" for n in NEWEST])
        raise ConfigError(f"{sentence} (by release {RELEASE}; what only a later one has goes after --)")
    if dialect(release) == "nested":
        named = dict(flags)
    else:
        if missing := sorted(flags.keys() - FLAT.keys()):
            raise ConfigError(
                f"--{missing[0]} has no counterpart in OpenRLHF {release}: leave it out or update OpenRLHF"
            )
        named = {FLAT[k]: v for k, v in flags.items()}
        if known is not None and "max_new_tokens" not in known:  # before 0.9.5
            generated, total = named.pop("max_new_tokens", 1024), named.pop("max_len", 2048)
            named |= {"generate_max_len": generated, "prompt_max_len": total - generated}
        if known is not None and "bf16" in known:  # before 0.9.4
            named["bf16"] = True
    if known is not None and (unknown := sorted(named.keys() - known)):
        raise ConfigError(f"OpenRLHF {release}: {unknown_name('flag', unknown[0], known)}")
    return named


def arguments(flags: Mapping[str, Any]) -> Sequence[str]:
    """As a command line has them: a true flag stands alone, a false one is left out."""
    out: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            out += [f"--{name}"] * value
        else:
            out += [f"--{name}", str(value)]
    return out
