#!/usr/bin/env bash
# The protocol for Qwen2.5-Math-1.5B on a host with GPUs: evaluate the raw model, adapt it without labels with ttrl and
# with dare on each set, evaluate each result on every set. Resumable: what is finished is not done again.
#
#   research/scripts/qwen_protocol.sh FOLDER_OF_THE_SETS
#
# FOLDER holds math-500.jsonl, aime24.jsonl, amc.jsonl, mmlu-pro.jsonl, gpqa.jsonl (research/docs/qwen-protocol.md says from
# where). Needs, in one environment: dare-reward[service,trainer], vllm, openrlhf. `dare-reward doctor` looks.
#
# MODEL    Qwen/Qwen2.5-Math-1.5B, or a local path
# OUT      runs/qwen-protocol
# SETS     the sets that are evaluated; ADAPT: those that are adapted on; ARMS: ttrl and dare
# SEED     of the training (42)
# SAMPLES  completions a problem (16)
# PORT     where vLLM serves the model that is evaluated (18100); the reward service takes the next one
# DRY_RUN  not empty: print the commands and run nothing
set -euo pipefail

DATA=${1:?usage: research/scripts/qwen_protocol.sh FOLDER_OF_THE_SETS}
MODEL=${MODEL:-Qwen/Qwen2.5-Math-1.5B}
OUT=${OUT:-runs/qwen-protocol}
SETS=${SETS:-math-500 aime24 amc mmlu-pro gpqa}
ADAPT=${ADAPT:-aime24 amc math-500}
ARMS=${ARMS:-ttrl dare}
SAMPLES=${SAMPLES:-16}
SEED=${SEED:-42}
PORT=${PORT:-18100}
WAIT=${WAIT:-900} # seconds that a server may take to come up
DRY_RUN=${DRY_RUN:-}
server=

say() { printf -- '-- %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=; }; }
trap stop EXIT

run() {
    printf '   %s\n' "$*"
    [ -n "$DRY_RUN" ] || "$@"
}

# start URL COMMAND...: run it in the background and wait until URL answers
start() {
    local url=$1
    shift
    printf '   %s &\n' "$*"
    [ -z "$DRY_RUN" ] || return 0
    "$@" >>"$OUT/server.log" 2>&1 &
    server=$!
    for ((i = 0; i < WAIT; i++)); do
        curl -fs -o /dev/null "$url" && return 0
        kill -0 "$server" 2>/dev/null || die "$1 ended: see $OUT/server.log"
        sleep 1
    done
    die "$1 did not come up in $WAIT s: see $OUT/server.log"
}

evaluate() { # NAME MODEL
    local name=$1 model=$2 pairs=()
    if [ -e "$OUT/$name/report.json" ]; then
        say "$name: evaluated"
        return
    fi
    say "$name: evaluate $model"
    for set in $SETS; do pairs+=(--data "$set=$DATA/$set.jsonl"); done
    start "http://127.0.0.1:$PORT/health" vllm serve "$model" --host 127.0.0.1 --port "$PORT" --served-model-name policy
    run dare-reward evaluate "${pairs[@]}" --url "http://127.0.0.1:$PORT/v1" --model policy --samples "$SAMPLES" \
        --temperature 1.0 --top-p 0.95 --max-tokens 3072 --out "$OUT/$name" --paper Qwen2.5-Math-1.5B
    stop
}

adapt() { # SET ARM; dare is the recipe without a row
    local set=$1 arm=$2 recipe=$1-qwen2.5-math-1.5b
    [ "$arm" = dare ] || recipe=$recipe-$arm
    local folder=$OUT/train/$recipe
    if [ -e "$folder/done" ]; then
        say "$arm on $set: trained"
    else
        say "$arm on $set: train"
        start "http://127.0.0.1:$((PORT + 1))/ready" dare-reward serve --port "$((PORT + 1))"
        run dare-reward train --recipe "$recipe" --reward-url "http://127.0.0.1:$((PORT + 1))" \
            --data "$OUT/data" --out "$OUT/train" --model "$MODEL" --set "train.seed=$SEED"
        stop
        [ -n "$DRY_RUN" ] || touch "$folder/done"
    fi
    evaluate "$arm-$set" "$folder/model"
}

[ -d "$DATA" ] || die "$DATA is no folder"
for set in $SETS; do [ -e "$DATA/$set.jsonl" ] || die "$DATA/$set.jsonl is missing"; done
for tool in vllm dare-reward curl; do
    [ -n "$DRY_RUN" ] || command -v "$tool" >/dev/null || die "$tool is not installed"
done
mkdir -p "$OUT"
for set in $ADAPT; do
    [ -e "$OUT/data/$set.jsonl" ] || run dare-reward data prepare "$set" --from "$DATA/$set.jsonl" --out "$OUT/data"
done
evaluate raw "$MODEL"
for set in $ADAPT; do for arm in $ARMS; do adapt "$set" "$arm"; done; done
say "results"
run python3 "$(dirname "${BASH_SOURCE[0]}")/qwen_table.py" "$OUT"
