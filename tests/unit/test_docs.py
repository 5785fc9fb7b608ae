"""The documents say what happens: their commands are rerun, their Python is executed, their links lead somewhere."""

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPEC = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
docs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs)


@pytest.fixture(scope="module")
def address():
    with docs.service() as found:
        yield found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_outputs_are_what_the_commands_print(document, address):
    """`python scripts/docs.py` renews them."""
    text = document.read_text()
    assert docs.renew(text, address) == text, "run: python scripts/docs.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_python_sessions_run(document, address):
    text = document.read_text().replace(docs.ADDRESS, address)
    examples = doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)
    assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_nobody_is_told_to_install_a_name_that_no_index_has():
    """Until it is published: a checkout or a wheel file."""
    places = [*DOCUMENTS, *(f for room in ("client", "service", "trainer") for f in (ROOT / room).rglob("*.py"))]
    assert not [f for f in places if re.search(r"pip install ['\"]?dare-reward", f.read_text(encoding="utf-8"))]


def test_the_readme_s_commands_exist_and_ci_runs_the_second():
    text = (ROOT / "README.md").read_text()
    for command in ("python3 scripts/demo.py", "python3 scripts/test.py"):
        assert command in text
        assert (ROOT / command.split()[1]).exists()
    assert "python3 scripts/test.py" in (ROOT / ".ci" / "run").read_text()


def test_the_example_of_a_new_method_works():
    import numpy as np

    from dare_reward.groups import Groups

    text = (ROOT / "docs" / "development.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    space = {}
    exec(code, space)
    (method,) = space["METHODS"]
    estimate = method(Groups.of([["1", "1", "2", None]]), power=1.0)
    np.testing.assert_allclose(estimate.rewards_R, [1 / 3, 1 / 3, 2 / 3, 0])
    assert method.specs[0].doc == "exponent of the share"


@pytest.mark.parametrize("module", ["dare_reward.answers"])
def test_docstrings_run(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0
