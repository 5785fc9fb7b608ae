#!/usr/bin/env bash
# Let 64 rollouts of a prompt vote, and train on 32 of them, as the paper does. Each of the 32 samples generates two
# continuations; the second one only votes. With ADAPTIVE=auto, TTRL's majority vote gives the rewards: votes come in
# waves, and stop where the label is settled. DARE pays several answers, so that no early stop settles its rewards.
#
#   REWARD_URL=http://HOST:8000/reward bash examples/openrlhf/votes64.sh
set -euo pipefail

: "${REWARD_URL:?the address of the reward service, such as http://HOST:8000/reward}"
QUERY="votes_per_prompt=64"
if [ -n "${ADAPTIVE:-}" ]; then QUERY="$QUERY&method=ttrl&adaptive=$ADAPTIVE"; fi

REWARD_URL="$REWARD_URL?$QUERY" exec bash "$(dirname "$0")/train.sh" "$@"
