"""OpenRLHF's two dialects of flags: `--rollout.batch_size` since 0.10.2, `--rollout_batch_size` before.

Which flags a release has is read from the release itself, without importing it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any, Final

from dare_reward.errors import ConfigError

__all__ = ["OLDEST", "arguments", "dialect", "flags_of", "installed", "translate"]

OLDEST: Final = (0, 9, 1)  # since then one rollout, one executor; agents of before have another shape
NESTED: Final = (0, 10, 2)

# Names that are not the nested name with its last dots as underscores.
FLAT: Final[Mapping[str, str]] = {
    "actor.adam.lr": "actor_learning_rate",
    "actor.gradient_checkpointing_enable": "gradient_checkpointing",
    "actor.lr_scheduler": "lr_scheduler",
    "actor.lr_warmup_ratio": "lr_warmup_ratio",
    "actor.model_name_or_path": "pretrain",
    "actor.num_gpus_per_node": "actor_num_gpus_per_node",
    "actor.num_nodes": "actor_num_nodes",
    "algo.advantage.estimator": "advantage_estimator",
    "algo.advantage.no_std_norm": "no_advantage_std_norm",
    "algo.kl.init_coef": "init_kl_coef",
    "ckpt.output_dir": "save_path",
    "ckpt.path": "ckpt_path",
    "ckpt.save_hf": "save_hf_ckpt",
    "ckpt.save_steps": "save_steps",
    "data.apply_chat_template": "apply_chat_template",
    "data.input_key": "input_key",
    "data.label_key": "label_key",
    "data.max_len": "max_len",
    "data.max_samples": "max_samples",
    "data.prompt_dataset": "prompt_data",
    "ds.enable_sleep": "deepspeed_enable_sleep",
    "ds.zero_stage": "zero_stage",
    "eval.dataset": "eval_dataset",
    "eval.n_samples_per_prompt": "eval_n_samples_per_prompt",
    "eval.steps": "eval_steps",
    "eval.temperature": "eval_temperature",
    "ref.num_gpus_per_node": "ref_num_gpus_per_node",
    "ref.num_nodes": "ref_num_nodes",
    "reward.remote_url": "remote_rm_url",
    "rollout.batch_size": "rollout_batch_size",
    "rollout.max_new_tokens": "max_new_tokens",
    "rollout.micro_batch_size": "micro_rollout_batch_size",
    "rollout.n_samples_per_prompt": "n_samples_per_prompt",
    "rollout.temperature": "temperature",
    "rollout.top_p": "top_p",
    "train.agent_func_path": "agent_func_path",
    "train.batch_size": "train_batch_size",
    "train.colocate_all": "colocate_all_models",
    "train.max_epochs": "max_epochs",
    "train.micro_batch_size": "micro_train_batch_size",
    "train.num_episodes": "num_episodes",
    "train.seed": "seed",
    "vllm.enable_sleep": "vllm_enable_sleep",
    "vllm.gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "vllm.num_engines": "vllm_num_engines",
    "vllm.tensor_parallel_size": "vllm_tensor_parallel_size",
}


def dialect(release: str) -> str:
    """nested, or flat."""
    found = tuple(int(n) for n in release.split(".")[:3] if n.isdigit())
    if found < OLDEST:
        raise ConfigError(f"OpenRLHF {release}: the agent and the join need {'.'.join(map(str, OLDEST))} or later")
    return "nested" if found >= NESTED else "flat"


def installed() -> str | None:
    """The release in this environment."""
    try:
        return version("openrlhf")
    except PackageNotFoundError:
        return None


def flags_of(source: str) -> frozenset[str]:
    """The flags that a release's `cli/train_ppo_ray.py` declares. Optimiser flags are declared per prefix in a loop."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
            and node.args
        ):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.add(name.value.removeprefix("--"))
            elif isinstance(name, ast.JoinedStr):
                tail = "".join(str(part.value) for part in name.values if isinstance(part, ast.Constant)).removeprefix(
                    "--"
                )
                found |= {f"{prefix}{tail}" for prefix in ("actor", "critic")}
    return frozenset(found)


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
    """`flags` under the names of `release`; ConfigError for one that it does not have (if `known` says)."""
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
        raise ConfigError(f"OpenRLHF {release} has no flag --{unknown[0]}")
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
