import triton
import triton.language as tl


@triton.jit
def log1p(x):
    return tl.log(1.0 + x)
