#!/usr/bin/env bash
# Train with DARE by OpenRLHF's one flag, on one node with 8 GPUs.
#
#   pip install '.[trainer]'                                 # this package, vLLM and OpenRLHF, on the rollout nodes
#   dare-reward data prepare mine --from prompts.jsonl       # writes data/mine.jsonl, and data/mine-eval.jsonl if you have answers
#   REWARD_URL=http://HOST:8000/reward bash examples/openrlhf/train.sh
#
# Further arguments go to OpenRLHF and win over those below.
set -euo pipefail

: "${REWARD_URL:?the address of the reward service, such as http://HOST:8000/reward}"
MODEL=${MODEL:-Qwen/Qwen2.5-Math-1.5B}
DATA=${DATA:-data/mine.jsonl}
OUT=${OUT:-runs/mine}
GPUS=${GPUS:-8}

# Before OpenRLHF 0.10.2 the reward's flag is --remote_rm_url, and the others have other names too.
exec python -m openrlhf.cli.train_ppo_ray \
  --reward.remote_url "$REWARD_URL" \
  --rollout.n_samples_per_prompt 32 \
  --algo.advantage.estimator group_norm \
  --actor.model_name_or_path "$MODEL" \
  --data.prompt_dataset "$DATA" \
  --data.input_key input \
  --data.label_key label \
  --data.apply_chat_template \
  --data.max_len 4096 \
  --rollout.batch_size 8 \
  --rollout.micro_batch_size 8 \
  --rollout.max_new_tokens 3072 \
  --rollout.temperature 1.0 \
  --rollout.top_p 0.95 \
  --train.batch_size 256 \
  --train.micro_batch_size 2 \
  --train.max_epochs 1 \
  --train.colocate_all \
  --actor.num_nodes 1 \
  --actor.num_gpus_per_node "$GPUS" \
  --ref.num_nodes 1 \
  --ref.num_gpus_per_node "$GPUS" \
  --actor.gradient_checkpointing_enable \
  --actor.adam.lr 5e-7 \
  --actor.lr_scheduler cosine \
  --actor.lr_warmup_ratio 0.03 \
  --algo.kl.init_coef 0.0 \
  --ds.zero_stage 3 \
  --ds.enable_sleep \
  --vllm.num_engines "$GPUS" \
  --vllm.tensor_parallel_size 1 \
  --vllm.gpu_memory_utilization 0.6 \
  --vllm.enable_sleep \
  --ckpt.output_dir "$OUT/model" \
  --ckpt.path "$OUT/checkpoints" \
  --ckpt.save_hf \
  "$@"
