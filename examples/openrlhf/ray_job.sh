#!/usr/bin/env bash
# Submit a training to a running Ray cluster. The job takes the address of the service along, and the token if you set
# DARE_TOKEN: it does not stand in the flag, which `ps` and OpenRLHF's logs show.
#
#   RAY_ADDRESS=http://HEAD:8265 REWARD_URL=http://HOST:8000/reward bash examples/openrlhf/ray_job.sh
set -euo pipefail

: "${REWARD_URL:?the address of the reward service, such as http://HOST:8000/reward}"
SCRIPT=${SCRIPT:-examples/openrlhf/votes64.sh}
VARIABLES="\"REWARD_URL\": \"$REWARD_URL\", \"DARE_TOKEN\": \"${DARE_TOKEN:-}\""

exec ray job submit --address "${RAY_ADDRESS:?the address of the cluster, such as http://HEAD:8265}" \
  --runtime-env-json "{\"working_dir\": \".\", \"env_vars\": {$VARIABLES}}" \
  -- bash "$SCRIPT" "$@"
