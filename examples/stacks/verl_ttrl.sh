#!/usr/bin/env bash
# TTRL's AIME run (PRIME-RL/TTRL, examples/ttrl/aime.sh) on verl 0.9 without TTRL's fork: 64 votes, 32 trained.
#
#   dare-reward serve &
#   python examples/stacks/verl_ttrl_data.py AIME-TTT/train.json train.parquet --votes 64
#   python examples/stacks/verl_ttrl_data.py AIME-TTT/test.json test.parquet
#   MODEL=Qwen/Qwen2.5-Math-1.5B bash examples/stacks/verl_ttrl.sh
#
# DARE instead of TTRL is one setting: METHOD=dare. More arguments of verl go at the end.
set -euo pipefail
PYTHON=${PYTHON:-python}
export DARE_URL="${SERVICE:-http://127.0.0.1:8000}?method=${METHOD:-ttrl}"
export DARE_TRAINED=32
export VERL_USE_EXTERNAL_MODULES=dare_reward.stacks.verl
"$PYTHON" -m verl.trainer.main_ppo \
  reward.custom_reward_function.path=pkg://dare_reward.stacks.verl \
  data.train_files="${TRAIN:-train.parquet}" \
  data.val_files="${TEST:-test.parquet}" \
  data.train_batch_size=8 \
  data.max_prompt_length=512 \
  data.max_response_length=3072 \
  data.filter_overlong_prompts=True \
  data.truncation=error \
  actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen2.5-Math-1.5B}" \
  actor_rollout_ref.model.enable_gradient_checkpointing=True \
  actor_rollout_ref.model.use_remove_padding=True \
  actor_rollout_ref.actor.ppo_mini_batch_size=1 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.actor.use_kl_loss=True \
  actor_rollout_ref.actor.optim.lr=5e-7 \
  actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.03 \
  actor_rollout_ref.actor.optim.lr_scheduler_type=cosine \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=32 \
  actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.8 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2 \
  actor_rollout_ref.rollout.val_kwargs.do_sample=True \
  actor_rollout_ref.rollout.val_kwargs.n=16 \
  actor_rollout_ref.rollout.val_kwargs.top_p=0.95 \
  actor_rollout_ref.rollout.val_kwargs.temperature=0.6 \
  algorithm.adv_estimator=grpo \
  trainer.n_gpus_per_node="${GPUS:-8}" \
  trainer.nnodes=1 \
  trainer.test_freq=2 \
  trainer.save_freq=-1 \
  trainer.total_epochs=80 \
  trainer.project_name=ttrl \
  trainer.experiment_name="${METHOD:-ttrl}" \
  "$@"
