"""Settings of all tests, and groups that carry every input, so that tests can run over all methods."""

import gc
import importlib.util
import os
import sys
import tomllib
import types
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import numpy as np
import pytest
from fields import group_numbers
from hypothesis import settings
from method_params import params_of

from dare_reward.cli import main

# A deadline per example measures the machine's other work; what must be quick has a test of its own.
settings.register_profile("default", deadline=None)
settings.load_profile("default")

gc.disable()  # until all is collected, which stays: looking through it again and again finds no garbage

# No test asks a foreign host: an HTTP client that reads all authorities of the world takes 24 ms to make, and the tests
# and their processes make thousands of them.
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
os.environ.pop("SSL_CERT_FILE", None)
# httpcore looks for it at each request, and a module that is not there is searched in every folder each time.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None

registry = importlib.import_module("dare_reward.methods")  # the package has a function of this name


# What takes long for its number of tests: first, so that no process is left alone with one of these at the end.
LONG = (
    "unit/report/test_report.py", "unit/answers/test_extract_hostile.py", "trainer/test_openrlhf_group.py",
    "service/test_memory.py", "unit/test_methods.py", "service/test_deploy.py", "unit/test_client.py",
    "trainer/test_openrlhf_parity.py", "service/test_operations.py", "service/test_supervisor.py",
    "service/joins/test_live.py", "unit/answers/test_hostile.py", "service/test_schemathesis.py", "unit/test_docs.py",
    "unit/test_wire.py", "service/test_replies.py", "trainer/test_measure.py", "unit/test_demo.py",
    "unit/analysis/test_verdict.py", "service/joins/test_openrlhf_route.py", "unit/test_update.py",
    "service/test_refusals.py", "unit/test_growth.py", "unit/files/test_output.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def make_rollout(rng, answers=4, invalid=0.15, k=3):
    count = int(rng.integers(1, 25))
    probs = rng.dirichlet(np.ones(k + 2), count)
    logs = np.log(np.sort(probs, axis=1)[:, ::-1][:, :k])
    ends = sorted(set(rng.integers(1, count + 1, 3).tolist()))
    return {
        "answer": None if rng.random() < invalid else str(rng.integers(0, answers)),
        "token_entropies": rng.gamma(0.4, 1.0, count).tolist(),
        "token_logprobs": (-rng.gamma(0.4, 1.0, count)).tolist(),
        "token_self_certainty": rng.gamma(4.0, 2.0, count).tolist(),
        "topk_logprobs": logs.tolist(),
        "step_ends": ends,
        "token_ids": rng.integers(0, 9, count).tolist(),
        "ref_token_probs": rng.random(int(rng.integers(1, 5))).tolist(),
        "base_ref_mean_prob": float(rng.random()) * 0.3,
        "format": float(rng.integers(0, 2)),
        "verified": int(rng.integers(0, 2)),
        "pass_rate": float(rng.random()),
        "embedding": rng.normal(size=5).tolist(),
        "trained": bool(rng.random() < 0.8),
    }


def make_group(rng, size, **options):
    others = [{"answer": str(rng.integers(0, 4))} for _ in range(int(rng.integers(2, 7)))]
    return {
        **group_numbers("prompt_weight"),
        "label": "2",
        "reference": "2",
        "prompt_weight": float(rng.random()),
        "second_group": others,
        "teacher_group": [*others, {"answer": None}],
        "rollouts": [make_rollout(rng, **options) for _ in range(size)],
    }


def make_groups(seed=0, count=5, size=9, **options):
    rng = np.random.default_rng(seed)
    return [{"group_id": f"g{p}", **make_group(rng, size, **options)} for p in range(count)]


@pytest.fixture(scope="session")
def full_groups():
    return make_groups


@pytest.fixture(scope="session")
def needed_params():
    return params_of


@pytest.fixture(scope="module")
def short_fits():
    """RPC's fit takes a tenth of a second: in tests over all methods, which need any fit, it ends after a few steps."""
    optimize = importlib.import_module("scipy.optimize")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimize, "minimize", partial(optimize.minimize, options={"maxiter": 2}))
        yield


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture
def ran(capsys):
    """Runs a command, which must end with one of the codes, if any; what was printed since a test last looked."""

    def ran(words, *codes):
        try:
            code = main(words)
        except SystemExit as ended:  # so does argparse end it
            code = ended.code
        assert not codes or code in codes
        return capsys.readouterr()

    return ran


@pytest.fixture
def stand_in(monkeypatch):
    """Puts a module of this name and these members, and bare packages around it, where an import finds them."""

    def put(name, **members):
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            module = types.ModuleType(".".join(parts[:n]))
            monkeypatch.setitem(sys.modules, module.__name__, module)
        vars(module).update(members)

    return put


def forget_methods():
    for cached in (registry.methods, registry._settle):
        cached.cache_clear()


@pytest.fixture
def plugin(monkeypatch):
    """The method `guess` of tests/plugin.py, installed by another package's entry point."""
    entry = EntryPoint(name="guess", value="plugin", group=registry.GROUP)
    others = entry_points(group=registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry, *others])
    forget_methods()
    yield entry
    monkeypatch.undo()
    forget_methods()


@pytest.fixture(scope="session")
def plugins_installed(tmp_path_factory):
    """The paths that make the methods of examples/plugins installed, as pip would with `--editable`."""
    source = Path(__file__).parents[1] / "examples" / "plugins"
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    site = tmp_path_factory.mktemp("site")
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n")
    entries = (f"{name} = {value}\n" for name, value in project["entry-points"][registry.GROUP].items())
    (about / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{''.join(entries)}")
    return [str(site), str(source)]


@pytest.fixture(scope="module")
def plugins(plugins_installed):
    """The methods of examples/plugins, in this process and in those that the module's tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for path in plugins_installed:
            patch.syspath_prepend(path)
        patch.setenv("PYTHONPATH", os.pathsep.join([*plugins_installed, os.environ.get("PYTHONPATH", "")]))
        forget_methods()
        yield
    forget_methods()
