"""The fused entropy kernel in Triton's interpreter, on a CPU: equal to torch, one launch, each logit read once."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.openrlhf_loop

with (
    pytest.MonkeyPatch.context() as patch
):  # read where Triton is imported; engines that other files start must not see it
    patch.setenv("TRITON_INTERPRET", "1")
    torch = pytest.importorskip("torch")
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

    from dare_trainer.vllm import entropy_torch, entropy_triton

WIDE = 152_064  # Qwen2.5's vocabulary: 19 blocks, the last one not full
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Each test: Triton interprets, and no launch failed behind a correct result."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(entropy_torch, "_failures", [])
    yield
    assert not entropy_torch._failures


@pytest.fixture
def logits():
    def make(rows, size, dtype=torch.float32, scale=4.0):
        return (torch.randn(rows, size, generator=torch.manual_seed(size)) * scale).to(dtype)

    return make


class TorchTraffic(TorchDispatchMode):
    """Operators that a GPU would launch, and the bytes of the tensors that each reads and writes."""

    def __init__(self):
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        tensors = [t for t in (*args, result) if isinstance(t, torch.Tensor)]
        if not operator.is_view and operator is not torch.ops.aten.empty.memory_format:
            self.launches += 1
            self.bytes += sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())
        return result


class KernelTraffic:
    """Kernels that Triton launches, and the bytes that they load."""

    def __init__(self, monkeypatch):
        self.launches = self.bytes = 0
        load, call = interpreter.InterpreterBuilder.create_masked_load, interpreter.GridExecutor.__call__

        def create_masked_load(builder, pointers, mask, *rest):
            self.bytes += int(np.sum(mask.data)) * pointers.get_element_ty().primitive_bitwidth // 8
            return load(builder, pointers, mask, *rest)

        def launch(executor, *args, **kwargs):
            self.launches += 1
            with _disable_current_modes():  # the interpreter moves arguments by torch, a launch does not
                return call(executor, *args, **kwargs)

        monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_load", create_masked_load)
        monkeypatch.setattr(interpreter.GridExecutor, "__call__", launch)


def exact(logits, temperature=1.0):
    """In float64."""
    log_p = torch.log_softmax(logits.double() / temperature, dim=-1)
    return -(log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 7), (5, 360), (2, 8_192), (2, 8_193), (3, WIDE)])
@pytest.mark.parametrize("scale", [0.0, 4.0, 40.0])
def test_it_is_exact(logits, rows, size, dtype, scale):
    """The kernel to 1e-5 of float64 everywhere; torch in float32 is itself up to 1.4e-4 off at 152,064 logits on a CPU."""
    x, temperature = logits(rows, size, getattr(torch, dtype), scale), torch.linspace(0.3, 1.7, rows)
    for divide in (None, temperature):
        wanted = exact(x, 1.0 if divide is None else divide.double()[:, None])
        fused, torch_only = entropy_torch.entropy(x, divide).double(), entropy_torch.reference(x, divide).double()
        assert (fused - wanted).abs().max() < 1e-5
        assert (fused - torch_only).abs().max() < (1e-5 if size < WIDE else 2e-4)


def test_large_logits_cancel_nothing(logits):
    x = logits(3, 1_000) + 30_000.0
    torch.testing.assert_close(entropy_torch.entropy(x), entropy_torch.reference(x), atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy on NaN, which stands for the GPU here
def test_masks_greedy_rows_and_faults(logits):
    x = logits(8, 20_000)
    x[0, 1:] = -INF  # one token is left
    x[1, :9_000] = -INF  # nothing in the first block
    x[2, 9_000:] = -INF
    x[3, ::2] = -INF
    x[4, 5] = NAN
    x[5] = -INF
    x[6, 7] = INF
    x[7, :10_000] = torch.finfo(torch.float32).min
    for temperature in (None, torch.tensor([0.5, 2.0, 0.0, 1e-6, 1.0, 1.0, 1.0, 1.0])):
        found, wanted = entropy_torch.entropy(x, temperature), entropy_torch.reference(x, temperature)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-6, equal_nan=True)
        assert torch.isnan(found).tolist() == [False] * 4 + [True] * 3 + [False]
        assert found[0] == 0


def test_rows_of_a_wider_tensor(logits):
    wide = logits(6, 1_024)
    for x in (wide[:, :1_000], wide[::2], wide.T):  # the last one's columns are apart: torch computes it
        torch.testing.assert_close(entropy_torch.entropy(x), entropy_torch.reference(x), atol=1e-5, rtol=1e-6)
    assert entropy_torch.entropy(wide[:0]).shape == (0,)


def test_one_launch_reads_each_logit_once(logits, monkeypatch):
    rows = 70
    x, temperature = logits(rows, 10_000, torch.bfloat16), torch.full((rows,), 0.7)
    kernel = KernelTraffic(monkeypatch)
    with TorchTraffic() as beside:
        entropy_torch.entropy(x, temperature)
    with TorchTraffic() as fallback:
        entropy_torch.reference(x, temperature)
    print(f"\nkernel {kernel.bytes / x.numel():.2f} bytes a logit, {kernel.launches} launch; "
          f"torch {fallback.bytes / x.numel():.1f}, {fallback.launches}")  # fmt: skip
    assert (kernel.launches, beside.launches) == (1, 0)
    assert kernel.bytes == x.numel() * 2 + rows * 4
    assert fallback.launches >= 12
    assert fallback.bytes > 30 * x.numel()


def test_only_rows_that_asked_are_read(logits, monkeypatch):
    x, asked = logits(6, 3_000, torch.bfloat16), np.array([True, False, False, True, False, False])
    kernel = KernelTraffic(monkeypatch)
    found = entropy_torch.entropy(x, None, asked)
    assert kernel.bytes == asked.sum() * 3_000 * 2 + len(asked)
    assert torch.isnan(found).tolist() == (~asked).tolist()
    torch.testing.assert_close(found[asked], entropy_torch.reference(x)[asked], atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(entropy_torch.reference(x, None, torch.from_numpy(asked)), found, equal_nan=True, atol=1e-5, rtol=1e-6)  # fmt: skip


def test_a_kernel_that_fails_is_left_and_sampling_goes_on(logits, monkeypatch, caplog):
    calls = []

    def broken(*args, **kwargs):
        calls.append(args)
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(entropy_triton, "entropy", broken)
    x = logits(3, 50)
    for _ in range(2):
        torch.testing.assert_close(entropy_torch.entropy(x), entropy_torch.reference(x))
    assert len(calls) == 1
    assert "no C compiler" in caplog.text
    entropy_torch._failures.clear()  # expected


def test_a_gpu_without_triton_and_a_cpu_use_torch(logits, monkeypatch):
    x = logits(3, 50)
    monkeypatch.setattr(entropy_triton, "entropy", lambda *a, **k: pytest.fail("the kernel ran"))
    monkeypatch.setattr(entropy_triton, "INTERPRETED", False)
    assert entropy_torch.entropy(x).shape == (3,)
    monkeypatch.setattr(entropy_torch, "_kernel", lambda: None)
    assert entropy_torch.entropy(x).shape == (3,)


COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from dare_trainer.vllm.entropy_triton import BLOCK, _entropy_kernel as kernel

signature = {"out": "*fp32", "logits": "*" + sys.argv[1], "stride": "i64", "size": "i32", "temperature": "*fp32", "asked": "*i1"}
constants = {"GREEDY": 1e-5, "HAS_TEMPERATURE": True, "HAS_ASKED": True, "BLOCK": BLOCK}
signature |= dict.fromkeys(constants, "constexpr")
compiled = triton.compile(
    ASTSource(kernel, signature, {(kernel.arg_names.index(k),): v for k, v in constants.items()}),
    target=GPUTarget("cuda", int(sys.argv[2]), 32),
    options={"num_warps": 8},
)
print(compiled.metadata.shared, len(compiled.asm["cubin"]))
"""


@pytest.mark.parametrize(("dtype", "capability"), [("bf16", 80), ("bf16", 90), ("fp16", 90), ("fp32", 90)])
def test_it_compiles_for_a_gpu(dtype, capability, tmp_path):
    """To machine code, by the compiler that Triton brings; nothing here runs it."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, dtype, str(capability)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    shared, size = map(int, done.stdout.split())
    assert shared < 1024  # only what the warps of one row exchange
    assert size > 0
