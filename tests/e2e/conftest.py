"""What the slow tests share: a tiny model and an environment without network or home folder."""

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from by_path import run
from filelock import FileLock

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cache():
    """Compiled kernels survive between runs if DARE_TEST_CACHE names a folder: the first run costs 100 s more."""
    folder = Path(os.environ.get("DARE_TEST_CACHE") or Path(os.environ.get("TMPDIR", "/tmp")) / "dare-openrlhf-cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def quiet(cache):
    folders = {"HF_HOME": "hf", "VLLM_CACHE_ROOT": "vllm", "TORCH_EXTENSIONS_DIR": "torch", "TRITON_HOME": "triton"}
    folders["TORCHINDUCTOR_CACHE_DIR"] = "inductor"
    quiet = (
        "HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_LOGGING_LEVEL=ERROR TOKENIZERS_PARALLELISM=false"
    )
    small = "VLLM_CPU_KVCACHE_SPACE=1 OMP_NUM_THREADS=1"
    settings = dict(word.split("=") for word in f"{quiet} {small}".split())
    settings |= {name: str(cache / place) for name, place in folders.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def tiny(cache, quiet):
    """Made once per cache, by the first of the processes that need it."""
    folder = cache / "tiny"
    with FileLock(cache / "tiny.lock"):
        if not (folder / "config.json").is_file():
            run(HERE.parent / "stacks" / "tiny.py", folder)
    return folder


@pytest.fixture
def v2_runner(tmp_path):
    """Variables that run vLLM's V2 model runner through Triton's interpreter. vLLM 0.29 asks for a distribution named vllm."""
    path = [str(HERE / "openrlhf" / "at_start")]
    try:
        version("vllm")
    except PackageNotFoundError:
        release = version("vllm-cpu")
        made = tmp_path / "distribution" / f"vllm-{release}+cpu.dist-info"
        made.mkdir(parents=True)
        (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}+cpu\n")
        path.append(str(made.parent))
    return {"PYTHONPATH": os.pathsep.join(path), "TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
