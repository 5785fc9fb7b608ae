# The reward image: the service and what it needs, no machine learning framework, no compiler, no pip.
# `python3 scripts/lock.py` renews the versions and hashes of deploy/, and writes the digest of the base image here.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ENV PIP_CACHE_DIR=/opt/cache PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /opt/src
RUN python3 -m venv /opt/tools
COPY deploy/requirements.txt deploy/requirements-build.txt deploy/
# The environment that is shipped holds no pip; the one beside it fills it.
RUN --mount=type=cache,target=/opt/cache \
    python3 -m venv --without-pip /opt/dare \
    && /opt/tools/bin/python -m pip install --require-hashes -r deploy/requirements-build.txt \
    && /opt/tools/bin/python -m pip --python /opt/dare/bin/python install --require-hashes -r deploy/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY client client/
COPY service service/
COPY trainer trainer/
RUN /opt/tools/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /opt/dist . \
    && /opt/tools/bin/python -m pip --python /opt/dare/bin/python install --no-deps /opt/dist/dare_reward-*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="dare-reward" \
      org.opencontainers.image.description="Reward estimation as a service for label-free reinforcement learning" \
      org.opencontainers.image.licenses="Apache-2.0"
# Inside a container the service listens on every interface; what is published is for the one who runs it to say.
# The two MALLOC thresholds (256 MiB, above the body limit) keep the memory of a large body for the next one instead of
# faulting every page in again: half of the CPU that a 96 MiB body costs. Either one alone has no effect.
ENV PATH=/opt/dare/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DARE_HOST=0.0.0.0 \
    DARE_PORT=8000 \
    MALLOC_MMAP_THRESHOLD_=268435456 \
    MALLOC_TRIM_THRESHOLD_=268435456
COPY --from=build /opt/dare /opt/dare
# Where a volume for the run log is mounted: a new named volume takes its owner from here.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/dare-reward
USER 10001:10001
EXPOSE 8000
# http.client and not urllib: a proxy in the environment must not see this.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["python3", "-c", "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['DARE_PORT']), timeout=4); c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["dare-reward"]
CMD ["serve"]
