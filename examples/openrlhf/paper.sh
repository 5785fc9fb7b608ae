#!/usr/bin/env bash
# A cell of the paper's tables: train BACKBONE on BENCHMARK by ROW, then sample the five benchmarks.
#
#   dare-reward data prepare aime24 --from aime_2024.json    # the same for mmlu-pro, math-500, amc and gpqa
#   REWARD_URL=http://HOST:8000/reward BENCHMARK=aime24 BACKBONE=Qwen/Qwen2.5-Math-1.5B ROW=dare \
#     bash examples/openrlhf/paper.sh
#
# ROW is what the reward URL says after `method=`: dare, ttrl, dare_dist, dare_dist_bonus, dare_dist_prune, a functional
# form of the appendix such as 'dare&weight=sqrt&bonus=log_inv', or gt for GRPO with ground truth (LABELLED=data/math-train.jsonl).
# From the paper: 64 votes, 32 trained, temperature 1.0, top-p 0.95, 3,072 new tokens, AdamW with a cosine schedule and a
# peak of 5e-7, GRPO, 8 GPUs. The passes over each set are those of TTRL's authors where they have the set, else ours.
set -euo pipefail

: "${REWARD_URL:?the address of the reward service, such as http://HOST:8000/reward}"
BENCHMARK=${BENCHMARK:-aime24}
BACKBONE=${BACKBONE:-Qwen/Qwen2.5-Math-1.5B}
ROW=${ROW:-dare}
DATA=${DATA:-data}
OUT=${OUT:-runs/$BENCHMARK-$(basename "$BACKBONE")-${ROW%%&*}}

case $BENCHMARK in
  mmlu-pro) EPISODES=1 KIND=choice ;;
  math-500) EPISODES=10 KIND=math ;;
  aime24) EPISODES=80 KIND=math ;;
  amc) EPISODES=30 KIND=math ;;
  gpqa) EPISODES=10 KIND=choice ;;
  *) echo "BENCHMARK=$BENCHMARK: must be mmlu-pro, math-500, aime24, amc or gpqa" >&2; exit 2 ;;
esac
# Without entropies there is nothing to switch on for rows that read none.
case $ROW in ttrl | gt) QUERY="method=$ROW&kind=$KIND&entropy=none" ;; *) QUERY="method=$ROW&kind=$KIND" ;; esac
if [ "$ROW" != gt ]; then QUERY="$QUERY&votes_per_prompt=64"; fi

REWARD_URL="$REWARD_URL?$QUERY" MODEL="$BACKBONE" OUT="$OUT" DATA="${LABELLED:-$DATA/$BENCHMARK.jsonl}" \
  bash "$(dirname "$0")/train.sh" \
  --train.num_episodes "$EPISODES" \
  --eval.dataset "$DATA/$BENCHMARK-eval.jsonl" \
  --eval.temperature 1.0 \
  --eval.n_samples_per_prompt 16 \
  --eval.steps 10 \
  --train.seed 42 \
  "$@"

for name in mmlu-pro math-500 aime24 amc gpqa; do
  # 1 says that entropy does not help there, which is no failure of the measurement.
  dare-reward measure --model "$OUT/model" --data "$DATA/$name-eval.jsonl" --out "$OUT/$name.jsonl" --prompts 1000 ||
    [ $? -eq 1 ]
done
