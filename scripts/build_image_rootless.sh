#!/usr/bin/env bash
# Build the reward image from the Dockerfile and start it, without a Docker engine: buildah with chroot isolation.
#
#   scripts/build_image_rootless.sh                    base image made here by debootstrap (Debian's own Python)
#   BASE=docker.io/library/python:3.12-slim scripts/build_image_rootless.sh      the Dockerfile's own base
#
# Debian and Ubuntu: apt install buildah debootstrap ca-certificates curl procps runc
#
# BASE   base image, handed to the Dockerfile; empty: made by debootstrap, which needs root (the rest does not)
# SUITE  the Debian release of that base (trixie), MIRROR where it comes from
# IMAGE  the name of the result (localhost/dare-reward:local)
# PORT   where the started service listens on loopback while it is asked (18000)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BASE=${BASE:-}
SUITE=${SUITE:-trixie}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
IMAGE=${IMAGE:-localhost/dare-reward:local}
PORT=${PORT:-18000}
CERTIFICATES=/etc/ssl/certs/ca-certificates.crt # of this machine, so that a private package mirror is trusted
export BUILDAH_ISOLATION=chroot

say() { printf -- '-- %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
for tool in buildah curl pgrep; do
    command -v "$tool" >/dev/null || die "$tool is not installed (apt install $tool)"
done
build_options=(--isolation chroot --format docker)
[ ! -r "$CERTIFICATES" ] || build_options+=(--volume "$CERTIFICATES:$CERTIFICATES:ro")

work=$(mktemp -d)
container=
service=
finish() {
    [ -z "$service" ] || kill -KILL "$service" 2>/dev/null || true
    [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT

if [ -z "$BASE" ]; then
    BASE=localhost/dare-base:$SUITE
    if ! buildah inspect --type image "$BASE" >/dev/null 2>&1; then
        command -v debootstrap >/dev/null || die 'debootstrap is not installed (apt install debootstrap)'
        [ "$(id -u)" -eq 0 ] || die 'debootstrap needs root; or name an image that can be pulled: BASE=...'
        say "base: Debian $SUITE with its Python"
        debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$SUITE" "$work/base" "$MIRROR" \
            >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die 'debootstrap failed'; }
        rm -rf "$work"/base/var/cache/apt/archives/*.deb "$work"/base/var/lib/apt/lists/*
        container=$(buildah from scratch)
        buildah copy --quiet "$container" "$work/base" / >/dev/null
        buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
        buildah commit --quiet "$container" "$BASE" >/dev/null
        buildah rm "$container" >/dev/null
        container=
        rm -rf "$work/base"
    fi
    build_options+=(--pull-never)
fi

say "build: $IMAGE on $BASE"
buildah build "${build_options[@]}" --build-arg "BASE=$BASE" --tag "$IMAGE" . >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log" >&2; die 'the build failed'; }

describe() { buildah inspect --type image --format "$1" "$IMAGE"; }
words() { describe "{{range .Docker.Config.$1}}{{.}}{{\"\\n\"}}{{end}}"; }
mapfile -t command < <(words Entrypoint && words Cmd)
mapfile -t health < <(words Healthcheck.Test)
say "size: $(buildah images --format '{{.Size}}' "$IMAGE")"
say "runs: ${command[*]} (user $(describe '{{.Docker.Config.User}}'))"
[ "${health[0]:-}" = CMD ] || die 'the image has no health check'

container=$(buildah from --pull-never "$IMAGE")
inside() { buildah run --isolation chroot "$@"; }
say 'holds:'
inside "$container" -- python3 -c '
import importlib.metadata, importlib.util, os, sys
print("Python", sys.version.split()[0])
print(*sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions()), sep="\n")
for name in ("torch", "vllm", "openrlhf"):
    assert importlib.util.find_spec(name) is None, f"{name} is in the image"
assert os.getuid() == 10001, f"runs as user {os.getuid()}"
assert not os.access("/opt/dare", os.W_OK), "the service could write its own code"
'

# Chroot isolation shares the network of this machine, so the service is told to keep to loopback.
say "start: http://127.0.0.1:$PORT"
settings=(--env DARE_HOST=127.0.0.1 --env "DARE_PORT=$PORT")
inside "${settings[@]}" "$container" -- "${command[@]}" >"$work/service.log" 2>&1 &
service=$!
for _ in $(seq 150); do
    kill -0 "$service" 2>/dev/null || break
    if curl --noproxy '*' --silent --fail --max-time 2 "http://127.0.0.1:$PORT/health" >"$work/health"; then break; fi
    sleep 0.2
done
[ -s "$work/health" ] || { cat "$work/service.log" >&2; die 'the service did not answer /health'; }
say "GET /health: $(cat "$work/health")"
inside "${settings[@]}" "$container" -- "${health[@]:1}"
say 'the health check of the image succeeds'
# Chroot isolation does not hand signals on, so the process inside gets it: the last in this line of children.
inner=$service
while child=$(pgrep --parent "$inner" | head -n 1) && [ -n "$child" ]; do inner=$child; done
kill -TERM "$inner"
code=0
wait "$service" || code=$?
service=
[ "$code" -eq 0 ] || { tail -n 20 "$work/service.log" >&2; die "after SIGTERM the service ended with exit code $code"; }
say 'stopped by SIGTERM with exit code 0'

if [ "$(id -u)" -eq 0 ] && command -v runc >/dev/null; then
    say 'under the constraints of docker-compose.yml:'
    python3 scripts/check_image.py "$IMAGE"
else
    say 'not run under the constraints of docker-compose.yml: scripts/check_image.py needs root and runc'
fi
