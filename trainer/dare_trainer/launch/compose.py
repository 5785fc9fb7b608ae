"""From a recipe to OpenRLHF's command line, and to the agent's folder that the command points to."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlencode

from dare_reward.errors import ConfigError
from dare_reward.files.output import write_files
from dare_reward.methods import find, require_scale

from ..agent.config import FILE, AgentConfig, config_text
from .flags import RELEASE, arguments, translate
from .recipes import Recipe

MODULE: Final = "openrlhf.cli.train_ppo_ray"
NOTHING: Mapping[str, Any] = MappingProxyType({})
JOB: Final = "JOB-OF-THE-SHELL"
COMPOSED: Final = frozenset({"reward.remote_url", "train.agent_func_path"})
AGENT_ONLY: Final = frozenset({"abort", "adaptive", "pruned", "send", "train_on", "votes_per_prompt"})


@dataclass(frozen=True, slots=True)
class Launch:
    """What a user says beside the recipe.

    data, out   folders: of the prepared sets, and of the run
    model       a local path instead of the recipe's model
    changes     OpenRLHF's flags (names since 0.10.2) that win over the recipe's
    extra       arguments that are passed on as they are
    job         what differs from job to job in the run's name on the URL route; empty: time and process
    """

    url: str
    route: Literal["agent", "url"] = "agent"
    data: Path = Path("data")
    out: Path = Path("runs")
    model: str = ""
    release: str = RELEASE
    changes: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    agent: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    extra: Sequence[str] = ()
    job: str = ""


def plan(recipe: Recipe, launch: Launch) -> tuple[dict[str, Any], AgentConfig]:
    """All flags by their names since 0.10.2, and the agent's configuration."""
    folder = launch.out / recipe.name
    _check_changes(launch.changes, recipe.flags)
    flags = {
        **recipe.flags,
        "actor.model_name_or_path": launch.model or recipe.model,
        "data.prompt_dataset": str(launch.data / f"{recipe.data}.jsonl"),
        "eval.dataset": str(launch.data / f"{recipe.evaluation}.jsonl"),
        "ckpt.output_dir": str(folder / "model"),
        "ckpt.path": str(folder / "checkpoints"),
        **launch.changes,
    }
    job = launch.job or f"{int(time.time())}-{os.getpid()}"
    settings = {
        **recipe.agent,
        "url": launch.url,
        "run": recipe.name if launch.route == "agent" else f"{recipe.name}-{job}",
        "method": recipe.method,
        "params": recipe.params,
        "temperature": float(flags["rollout.temperature"]),
        **launch.agent,
    }
    config = AgentConfig(**settings)
    check(flags, config)
    if launch.route == "agent":
        flags["train.agent_func_path"] = str((folder / "agent" / "agent.py").absolute())
    else:
        if agents_alone := sorted(launch.agent.keys() & AGENT_ONLY):
            raise ConfigError(f"{', '.join(agents_alone)}: only the agent can do that, not --route url")
        flags["reward.remote_url"] = reward_url(config, int(flags["rollout.n_samples_per_prompt"]))
    return flags, config


def _check_changes(changes: Mapping[str, Any], flags: Mapping[str, Any]) -> None:
    """ConfigError for a flag that is composed of the other options, and for a text where the recipe has a number."""
    for name, value in changes.items():
        if name in COMPOSED:
            raise ConfigError(
                f"--set {name}: this command writes that flag itself, from --reward-url, --params and --agent"
            )
        kind = type(flags.get(name))
        try:
            if kind in {int, float}:
                kind(value)
        except ValueError:
            raise ConfigError(f"--set {name}: must be {'an integer' if kind is int else 'a number'}") from None


def check(flags: Mapping[str, Any], config: AgentConfig) -> None:
    """What OpenRLHF or the agent would only find out hours or gigabytes later."""
    samples = int(flags["rollout.n_samples_per_prompt"])
    if config.votes_per_prompt % samples:
        raise ConfigError(
            f"votes_per_prompt={config.votes_per_prompt} is not a multiple of rollout.n_samples_per_prompt={samples}"
        )
    made = int(flags["rollout.batch_size"]) * samples
    if made % int(flags["train.batch_size"]):
        raise ConfigError(
            f"a step makes {made} rollouts, which train.batch_size={flags['train.batch_size']} does not divide: set "
            f"train.batch_size={made}, or a divisor of it"
        )
    if (estimator := flags.get("algo.advantage.estimator")) == "group_norm":
        remedy = "set algo.advantage.estimator=dr_grpo"
        require_scale(find(config.method), consumer=f"OpenRLHF's {estimator}", remedy=remedy)
    if int(flags["data.max_len"]) <= int(flags["rollout.max_new_tokens"]):
        raise ConfigError("data.max_len must leave room for a prompt beside rollout.max_new_tokens")


def reward_url(config: AgentConfig, samples: int) -> str:
    """The URL route's flag: every setting rides in the query, and the token, which OpenRLHF sends nowhere else."""
    entropies = (
        {} if config.entropy == "none" or "missing_entropy" not in config.every_param else {"missing_entropy": "error"}
    )
    query = {
        "group_size": samples,
        "run": config.run,
        "method": config.method,
        "kind": config.kind,
        **({"shadow": " ".join(config.shadow)} if config.shadow else {}),  # OpenRLHF splits the flag at commas
        **({"token": config.token} if config.token else {}),
    }
    params = {f"{config.method}.{k}" if k in query else k: v for k, v in config.params.items()}
    return f"{config.url.rstrip('/')}/reward?{urlencode({**query, **entropies, **params})}"


def command(flags: Mapping[str, Any], launch: Launch, known: frozenset[str] | None = None) -> list[str]:
    return ["python", "-m", MODULE, *arguments(translate(flags, launch.release, known)), *launch.extra]


def shell(words: Sequence[str]) -> str:
    """What a shell reads back as the same words, a flag a line; JOB becomes what differs each time."""
    text = "".join(f" \\\n  {w}" if w.startswith("--") else f" {w}" for w in map(shlex.quote, words)).lstrip()
    return text.replace(JOB, "'\"$(date +%s)-$$\"'")


def prepare_folder(flags: Mapping[str, Any], config: AgentConfig, *, force: bool = False) -> Path | None:
    """Write the agent and its configuration where the flags point; None on the URL route.

    The same command may run again, but a file there that says something else is not replaced unless `force` is set.
    """
    target = flags.get("train.agent_func_path")
    if target is None:
        return None
    folder = Path(target).parent
    folder.mkdir(parents=True, exist_ok=True)
    agent = files("dare_trainer.agent").joinpath("agent.py").read_bytes()
    write_files({Path(target): agent, folder / FILE: config_text(config)}, force=force)
    return folder
