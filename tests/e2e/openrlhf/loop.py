"""Run the released OpenRLHF on this machine against a service, and read what both wrote."""

import ast
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
from serving import answering, free_port, service

from dare_reward.wire import unpack

HERE = Path(__file__).parent
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Exchange:
    """One reward request with its reply."""

    path: str
    status: int
    body: dict
    reply: dict | None
    columns: dict = field(default_factory=dict)


@dataclass
class Run:
    steps: list[dict]
    evaluations: list[dict]
    exchanges: list[Exchange]

    @property
    def scored(self):
        return [x for x in self.exchanges if x.status == 200 and "handshake" not in json.dumps(x.body)]


@contextmanager
def recording(upstream, exchanges, seen):
    """The address of a reverse proxy, which puts every reward request with its reply into `exchanges`, and then calls
    `seen`. While the upstream is away it answers 502, which clients take as a reason to come back."""
    client = httpx.Client(base_url=upstream, timeout=180, limits=httpx.Limits(max_connections=None))
    hop = {"content-length", "connection", "host"}

    def forward(handler, content):
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in hop}
        try:
            reply = client.request(handler.command, handler.path, content=content, headers=headers)
            status, told = reply.status_code, reply.content
        except httpx.TransportError as error:
            status, told = 502, str(error).encode()
        if handler.command == "POST":
            body, columns = content, {}
            if handler.headers["content-type"] != "application/json":
                frame = unpack(bytearray(content))
                body, columns = bytes(frame.request), frame.columns
            said = json.loads(told) if status == 200 else None
            exchanges.append(Exchange(handler.path, status, json.loads(body), said, columns))
            seen()
        return status, told

    with client, answering(forward) as url:
        yield url


def write_prompts(path, split, count):
    rows = []
    for a, sign, b in itertools.product(range(4), "+-*", range(4)):
        answer = {"+": a + b, "-": a - b, "*": a * b}[sign]
        label = json.dumps({"answer": str(answer), "split": split})
        rows.append(json.dumps({"input": f"What is {a} {sign} {b}?", "label": label, "datasource": "sums"}))
    path.write_text("\n".join(rows[:count]) + "\n")
    return path


def pairs(text):
    """The names and values of a text of NAME=VALUE."""
    return dict(word.split("=", 1) for word in text.split())


FLAGS = pairs("""
    actor.num_nodes=1 actor.num_gpus_per_node=1 ref.num_nodes=1 ref.num_gpus_per_node=1 vllm.num_engines=1
    vllm.tensor_parallel_size=1 vllm.gpu_memory_utilization=0.1 vllm.sync_backend=gloo data.input_key=input
    data.label_key=label data.max_len=256 rollout.max_new_tokens=48 rollout.micro_batch_size=4 train.micro_batch_size=8
    train.num_episodes=1 train.max_epochs=1 algo.advantage.estimator=group_norm algo.kl.init_coef=0 actor.entropy_coef=0
    ds.zero_stage=2 ds.attn_implementation=sdpa ds.param_dtype=bf16
""")
ENVIRONMENT = pairs("""
    DARE_TEST_CPU_SHIM=1 DS_ACCELERATOR=cpu RAY_USAGE_STATS_ENABLED=0 RAY_DEDUP_LOGS=0 RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
    MASTER_ADDR=127.0.0.1 VLLM_HOST_IP=127.0.0.1 GLOO_SOCKET_IFNAME=lo WANDB_MODE=disabled VLLM_LOGGING_LEVEL=WARNING
""")


def flags(model, folder, *, prompts=24, samples=4, batch=8, lr=1e-3):
    """A run of prompts / batch steps."""
    alone = dict.fromkeys(("vllm.enforce_eager", "train.colocate_all", "data.apply_chat_template"), True)
    sizes = {"rollout.batch_size": batch, "rollout.n_samples_per_prompt": samples, "train.batch_size": batch * samples}
    places = {"ckpt.output_dir": folder / "model", "ckpt.path": folder / "checkpoints"}
    asked = write_prompts(folder / "prompts.jsonl", "train", prompts)
    own = {"actor.model_name_or_path": model, "data.prompt_dataset": asked, "actor.adam.lr": lr}
    return {**FLAGS, **alone, **sizes, **places, **own}


def train(model, folder, query, *, more=(), environment=(), killed_after=0, **sizes):
    """The run of released OpenRLHF against a service by this query of the reward URL; `more` flags, and `sizes` of
    `flags`. After so many posts the service is killed, and a second later another one binds its port."""
    exchanges, posts, port, log = [], itertools.count(1), free_port(), folder / "train.log"
    with ExitStack() as running:
        serve = partial(service, port=port, end=signal.SIGKILL)
        first = running.enter_context(ExitStack())
        first.enter_context(serve())

        def seen():
            if next(posts) == killed_after:
                first.close()
                time.sleep(1.0)
                running.enter_context(serve())

        url = running.enter_context(recording(f"http://127.0.0.1:{port}", exchanges, seen))
        named = flags(model, folder, **sizes) | dict(more) | {"reward.remote_url": f"{url}/reward?{query}"}
        words = [sys.executable, str(HERE / "driver.py")]
        for name, value in named.items():  # a true flag stands alone, a false one is left out
            words += [f"--{name}"] * value if isinstance(value, bool) else [f"--{name}", str(value)]
        begun = time.perf_counter()
        with log.open("w", encoding="utf-8") as out:
            process = subprocess.Popen(
                words, stdout=out, stderr=subprocess.STDOUT, env=_environment(environment), start_new_session=True
            )
            try:
                code = process.wait(900)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(30)
        seconds = time.perf_counter() - begun
    text = ANSI.sub("", log.read_text(encoding="utf-8", errors="replace"))
    assert code == 0, text[-6000:]
    assert len(exchanges) > killed_after, "the service was not killed: the test has lost its point"
    run = Run(_dicts(text, r"Global step \d+: "), _dicts(text, r"eval_metrics: "), exchanges)
    print(f"\n{query}: {len(run.steps)} steps in {seconds:.0f} s")
    return run


def _environment(more):
    ray = Path(os.environ.get("DARE_TEST_RAY_ROOT", "/tmp")) / f"dray{os.getpid()}"  # Ray's socket paths must be short
    paths = os.pathsep.join([str(HERE / "at_start"), str(HERE / "shim")])
    settings = {**ENVIRONMENT, "DARE_TEST_RAY": str(ray), "PYTHONPATH": paths, **dict(more)}
    return {k: v for k, v in os.environ.items() if not k.startswith("VLLM_TOKEN")} | settings


def _dicts(text, before):
    return [ast.literal_eval(m.group(1)) for m in re.finditer(before + r"(\{.*\})", text)]
