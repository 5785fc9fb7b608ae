"""The documents say what happens: their commands are rerun, their Python is executed, their links lead somewhere."""

import doctest
import importlib
import re
import tomllib
from contextlib import ExitStack
from pathlib import Path

import described  # noqa: F401  (what docs.py imports beside it)
import pytest
from by_path import load
from rows import each
from serving import Live

from dare_reward.stacks import adapter

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
docs = load(ROOT / "scripts" / "docs.py", "docs_script")
site = load(ROOT / "scripts" / "_site.py", "site_script")


@pytest.fixture(scope="module")
def address():
    with Live(join_runs="distinct") as service:
        yield service.url.removeprefix("http://")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_outputs_are_what_the_commands_print(document, address):
    """`python scripts/docs.py` renews them."""
    text = document.read_text()
    assert docs.renew(text, address) == text, "run: python scripts/docs.py"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_python_sessions_run(document, address, monkeypatch):
    text = document.read_text().replace(docs.ADDRESS, address)
    examples = doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)
    with ExitStack() as clients:  # an adapter keeps its own as long as the process
        make = adapter._client.__wrapped__
        monkeypatch.setattr(adapter, "_client", lambda *given: clients.enter_context(make(*given)))
        assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0


def test_the_docs_stay_short():
    """A page that grows takes its words from another: `python scripts/docs.py --words` shows them."""
    words = docs.words()
    assert sum(words.values()) <= 18_000
    assert {page: count for page, count in words.items() if count > 1_600} == {}
    assert words["docs/openrlhf.md"] + words["docs/openrlhf-reference.md"] <= 1_300


@each("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


FENCE = re.compile(r"^( *)(```|~~~).*?^ *\2", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"\|( *:?-+:? *\|)+")
SITE_PAGES = [*DOCUMENTS, *sorted((ROOT / "research").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def literal_rows(text):
    """Lines that a reader sees with a `|` in front: of a block of rows whose second line is no rule of a table."""
    blocks = re.split(r"\n[ \t]*\n", FENCE.sub("", re.sub(r"<!--.*?-->", "\n", text, flags=re.DOTALL)))
    rows = [[line.strip() for line in block.strip("\n").split("\n")] for block in blocks]
    tables = [block for block in rows if len(block) > 1 and block[0].startswith("|") and RULE.fullmatch(block[1])]
    bare = [line for block in rows if block not in tables for line in block if line.startswith("|")]
    return bare + [line for block in tables for line in block if not line.startswith("|")]


def test_a_row_behind_a_blank_line_is_found():
    good = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert literal_rows(f"<!-- table of: x -->\n{good}<!-- end -->\n\n```\n| 3 |\n```\n\ntext") == []
    assert literal_rows(f"{good}\n| 3 | 4 |\n") == ["| 3 | 4 |"]
    assert literal_rows(f"text\n{good}") == good.splitlines()
    assert literal_rows(f"{good}text\n") == ["text"]


@each("document", SITE_PAGES)
def test_no_line_renders_with_a_leading_bar(document):
    """A blank line within a table ends it, and its further rows are shown as they are written."""
    assert literal_rows(document.read_text(encoding="utf-8")) == []


STRAY = re.compile(r"""\./dare-reward\b|dare-reward\[|pip install (?:-\S+ )*['"]?dare-reward""")


def test_every_install_line_has_the_form_that_works():
    """`pip install '.[EXTRA]'` in the checkout: no index has the package, and nobody has a folder of its name here."""
    code = (f for room in ("client", "service", "trainer", "research") for f in (ROOT / room).rglob("*.py"))
    places = [*DOCUMENTS, *(ROOT / "research").rglob("*.md"), *(ROOT / "examples").glob("*.*"), *code]
    assert not [f for f in places if STRAY.search(f.read_text(encoding="utf-8"))]


def test_install_lines_name_extras_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    code = (f for room in ("client", "service", "trainer") for f in (ROOT / room).rglob("*.py"))
    named = [n for f in (*DOCUMENTS, *code) for n in re.findall(r"pip install '\.\[([a-z,]+)\]'", f.read_text())]
    assert len(named) > 10
    assert {one for n in named for one in n.split(",")} <= extras.keys()


def test_the_readme_is_short_and_its_commands_exist():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 500, "a stranger reads it in two minutes"
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


LOADED = {
    '<script src="https://cdn.test/x.js"></script>': "bad.html: https://cdn.test/x.js",
    '<link rel="stylesheet" href="//cdn.test/x.css">': "bad.html: //cdn.test/x.css",
    '<img src="http://cdn.test/x.png">': "bad.html: http://cdn.test/x.png",
    "@font-face { src: url('https://fonts.test/f.woff2') }": "bad.css: https://fonts.test/f.woff2",
}


@pytest.mark.parametrize(("text", "told"), LOADED.items())
def test_the_site_may_load_nothing_from_another_host(text, told, tmp_path):
    """The page or style of the site that does it is named, and `scripts/docs.py --site` fails."""
    (tmp_path / "good.html").write_text('<script src="x.js"></script><a href="https://arxiv.org/">paper</a>')
    (tmp_path / "good.css").write_text("a { background: url(data:image/png;base64,AA) } @import 'y.css';")
    assert site.foreign(tmp_path) == []
    (tmp_path / told.partition(":")[0]).write_text(text)
    assert site.foreign(tmp_path) == [told]


def test_every_page_stands_in_the_navigation():
    """A page that nobody reaches from the menu is not read; `--site` refuses one, too."""
    text = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT).as_posix() for page in (*DOCUMENTS, *(ROOT / "research" / "docs").glob("*.md"))]
    assert [page for page in pages if not re.search(rf"[ :]{re.escape(page)}\b", text)] == []
