"""Renew what is written from the code: `python scripts/docs.py [--check] [FILES]`, or build the site: `--site`.

A block under a line `<!-- output of: COMMAND -->` in README.md or docs/ is what COMMAND prints, run by bash from the
repository root with a service on the address that the documents use; under `<!-- its output -->` it is what the block
above prints. openapi.json describes the service, which ships it.
`--check` changes nothing and fails if something differs. `--table NAME` prints one of the tables that the documents hold.
`--words` counts the words of docs/ that somebody wrote, by page: not those of the blocks above.
`--site` makes its own environment (.venv-docs) and builds mkdocs.yml into build/site. Warnings are errors, and so is a
page that loads something from another host.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
PRINTED = r"(?P<fence>```\w*\n)(?P<body>.*?)(?P<end>\n?```)"
BLOCK = re.compile(r"(?P<head><!-- output of: (?P<command>.+?) -->\n)" + PRINTED, re.DOTALL)
ABOVE = re.compile(r"(?P<head>```bash\n(?P<command>[^`]+)\n```\n\n<!-- its output -->\n)" + PRINTED, re.DOTALL)
MARKDOWN = re.compile(r"<!-- table of: (?P<command>.+?) -->\n(?P<body>.*?)\n?<!-- end -->", re.DOTALL)
GENERATED = re.compile(r"<!-- [\w ]+: .+? -->\n.*?<!-- end -->", re.DOTALL)  # tables, also those of other programs
ADDRESS = "127.0.0.1:8000"
OWN = "python scripts/docs.py --table "  # of this process: twenty starts of Python are saved
CLOSING = re.compile(r"^[\d,]+ groups?, .* \d+\.\d s\n?", re.MULTILINE)  # the last line of a command has its seconds
ENTRY = "import sys; from dare_reward.cli import main; sys.exit(main())"


@contextmanager
def service() -> Iterator[str]:
    """A service on a free port; yields host:port."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")} | {"DARE_LOG": "off"}
    command = [sys.executable, "-c", ENTRY, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise SystemExit("no service: `dare-reward serve` failed, see above")
        try:
            yield line.strip().rpartition("//")[2]
        finally:
            process.terminate()


def output(command: str, address: str) -> str:
    """What `command` prints, with the documents' address in it."""
    if command.startswith(OWN):
        return table(command.removeprefix(OWN))
    command = command.replace(ADDRESS, address)
    first, *filters = command.split(" | ") if command.startswith("dare-reward") else (command,)
    found = shell(first)
    if filters:
        found = shell(" | ".join(filters), given=found)
    return CLOSING.sub("", found).rstrip().replace(address, ADDRESS)


@cache
def shell(command: str, given: str | None = None) -> str:
    """What bash prints; several documents show parts of one command's output, and it runs once."""
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")} | own
    real = ["bash", "-c", f"exec 2>&1\n{command}"]
    found = subprocess.run(real, cwd=ROOT, env=environment, check=False, text=True, input=given, stdout=subprocess.PIPE)
    if found.returncode and "--table" in command:
        raise SystemExit(f"{command} failed:\n{found.stdout}")
    return found.stdout


def renew(text: str, address: str) -> str:
    """`text` with every block as its command prints it now. Without curl, blocks of curl are left alone."""

    def fresh(match: re.Match[str]) -> str:
        command = match["command"]
        if command.startswith("curl") and shutil.which("curl") is None:
            return match.group()
        body = output(command, address)
        if "fence" in match.groupdict():
            return f"{match['head']}{match['fence']}{body}\n```"
        return f"<!-- table of: {command} -->\n{body}\n<!-- end -->"

    return MARKDOWN.sub(fresh, ABOVE.sub(fresh, BLOCK.sub(fresh, text)))


def openapi() -> str:
    """The text of openapi.json."""
    from _openapi import document  # noqa: PLC0415  what prints a table needs no application

    return document()


def settings_table() -> Iterator[tuple[str, ...]]:
    """The settings of the service."""
    from dare_service.settings import SETTINGS  # noqa: PLC0415

    yield "variable", "default", "why"
    for name, spec in SETTINGS.items():
        yield f"`DARE_{name.upper()}`", str(spec.default if spec.default != "" else "(empty)"), spec.doc


def adapter_table() -> Iterator[tuple[str, ...]]:
    """The settings of every adapter."""
    from dare_reward.options import ADAPTER  # noqa: PLC0415
    from dare_reward.scoring.update import update_specs  # noqa: PLC0415

    yield "setting", "accepts", "default", "meaning"
    options = {s.name for s in update_specs()}
    for name, spec in ADAPTER.items():
        if name in options:  # docs/advantages.md has these
            continue
        default = "none" if spec.default in (None, ()) else str(spec.default)
        yield f"`{name}`", spec.accepts.removesuffix(" or null"), default, spec.doc


def group_settings_table() -> Iterator[tuple[str, ...]]:
    """What OpenRLHF's reward URL can say."""
    from dare_reward.openrlhf.url import ActorSettings  # noqa: PLC0415

    yield "parameter", "accepts", "default", "meaning"
    without_package = {"group_size", "extra_logs"}  # the actor knows both
    for name, spec in ActorSettings.specs().items():
        if name not in without_package:
            default = "" if spec.default in ("", (), None) else str(spec.default)
            yield f"`{name}`", spec.accepts.removesuffix(" or null"), default, spec.doc


def logs_table(route: Literal["url", "actor"]) -> Iterator[tuple[str, ...]]:
    """The keys that OpenRLHF logs, by route: url or actor."""
    from dare_reward.openrlhf import LOGS, keys_of  # noqa: PLC0415

    yield "key", "meaning"
    yield from ((f"`{name}`", LOGS[name].meaning) for name in keys_of(route))


def meanings(place: str, *head: str, form: str = "`{}`") -> Iterator[tuple[str, ...]]:
    """The names and meanings that `place` declares, as `dare_reward.report.verdict:RULES` does."""
    module, _, declared = place.partition(":")
    yield head
    for name, meaning in getattr(import_module(module), declared).items():
        yield form.format(name), getattr(meaning, "meaning", meaning)


def numbers_table() -> Iterator[tuple[str, ...]]:
    """The numbers of a group and of a step."""
    from dare_reward.numbers import NUMBERS  # noqa: PLC0415

    yield "`dare/NAME`", "meaning", "unit", "mean over", "labels", "better"
    for n in NUMBERS:
        yield f"`{n.name}`", n.meaning, n.unit, n.over, "yes" if n.labels else "-", n.better or "-"


def names_table() -> Iterator[tuple[str, ...]]:
    """The names of other tools that a file may use."""
    from dare_reward.files.shapes import GROUP_NAMES, ROLLOUT_NAMES  # noqa: PLC0415

    yield "our name", "of a", "other names"
    for what, table_ in (("group", GROUP_NAMES), ("rollout", ROLLOUT_NAMES)):
        yield from ((f"`{own}`", what, ", ".join(f"`{n}`" for n in others)) for own, others in table_.items())


def charts_table() -> Iterator[tuple[str, ...]]:
    """The charts of a report."""
    from dare_reward.numbers import CHARTS  # noqa: PLC0415

    yield "name", "chart", "curves", "what it shows"
    for chart in CHARTS:
        curves, needs = ", ".join(c.name for c in chart.curves), " Needs labels." * chart.labelled
        yield f"`{chart.name}`", f"{chart.title} ({chart.unit})", curves, f"{chart.meaning}{needs}"


def rules_table() -> Iterator[tuple[str, ...]]:
    """The rules of a report's verdicts."""
    from dare_reward.report.verdict import RULES  # noqa: PLC0415

    yield "rule", "word", "it fires where"
    yield from ((f"`{name}`", rule.word, rule.meaning) for name, rule in RULES.items())


def line_table() -> Iterator[tuple[str, ...]]:
    """The keys of a run log's lines."""
    from dare_reward.runs.line import LINE  # noqa: PLC0415

    yield "key", "meaning"
    yield from ((f"`{name}`", meaning) for name, meaning in LINE.items())


def commands_table() -> Iterator[tuple[str, ...]]:
    """The commands of the package; research brings more."""
    from dare_reward.cli import command_line  # noqa: PLC0415
    from dare_reward.commands.command import HELP_INDEX  # noqa: PLC0415

    yield "command", "what it does"
    yield from (
        (f"`dare-reward {name}`", c.summary) for name, c in sorted(command_line()[1].items()) if name in HELP_INDEX
    )


def methods_table() -> Iterator[Sequence[str]]:
    """What each method that is offered needs, costs and returns."""
    from dare_reward.commands.methods import METHOD_HEAD, row  # noqa: PLC0415
    from dare_reward.methods import methods  # noqa: PLC0415

    rows = [METHOD_HEAD, *(row(m) for m in methods().values() if m.offered)]
    yield from ([name, *of_choice] for name, _, *of_choice, _ in rows)


def parameters_table(*, answers: bool) -> Iterator[Sequence[str]]:
    """The parameters of dare, or (`answers`) those that say how answers are read and compared."""
    from dare_reward.answers.rollouts import ANSWER_SPECS  # noqa: PLC0415
    from dare_reward.commands.methods import PARAMETER_HEAD, parameter  # noqa: PLC0415
    from dare_reward.methods import find  # noqa: PLC0415

    yield PARAMETER_HEAD
    yield from map(parameter, ANSWER_SPECS if answers else find("dare").specs)


def inputs_table(*, group: bool) -> Iterator[Sequence[str]]:
    """The inputs of a rollout, or of a `group`, and the methods that need them."""
    from dare_reward.inputs import GROUP_FIELDS, ROLLOUT_FIELDS  # noqa: PLC0415
    from dare_reward.methods import methods  # noqa: PLC0415

    fields = GROUP_FIELDS if group else ROLLOUT_FIELDS
    yield "input", *(() if group else ("one per",)), "accepts", "meaning", "methods"
    for f in fields.values():
        if f.doc:
            needing = (m.name for m in methods().values() if f.name in m.inputs and not (m.defaults or m.experimental))
            meaning = f.doc + (f"; gives {f.gives[0]}" if f.gives else "")
            yield f.name, *(() if group else (f.unit,)), f.rule, meaning, ", ".join(needing) or "-"


def advantages_table() -> Iterator[Sequence[str]]:
    """The advantage estimators, with their names in the stacks."""
    from dare_reward.advantages import ADVANTAGES  # noqa: PLC0415
    from dare_reward.methods import methods  # noqa: PLC0415

    yield "name", "formula", "OpenRLHF", "verl", "over"
    yield from ((name, a.formula, a.openrlhf, a.verl, a.over) for name, a in ADVANTAGES.items())
    yield "pass@K", "A+ or A- of pass@K, from rewards of 0 and 1", "-", "-", "group"
    for m in methods().values():
        if m.advantages:
            over = "group" if m.whole_batch is None else "request"
            yield m.name, f"{m.name}'s own: `method={m.name}` only", "-", "-", over


def group_inputs_table() -> Iterator[tuple[str, ...]]:
    """The inputs of methods that belong to a group, not to a rollout."""
    from dare_reward.inputs import GROUP_FIELDS  # noqa: PLC0415
    from dare_reward.methods import methods  # noqa: PLC0415

    yield "field of the group", "methods that read it"
    for name in GROUP_FIELDS:
        if readers := [m.name for m in methods().values() if name in m.inputs and not (m.defaults or m.experimental)]:
            yield f"`{name}`", ", ".join(f"`{r}`" for r in readers)


def waves_table() -> Iterator[tuple[str, ...]]:
    """The options of adaptive voting."""
    from dare_reward.votes import wave_specs  # noqa: PLC0415

    yield "name", "default", "accepts", "meaning", "source"
    for s in wave_specs():
        yield f"`{s.name}`", str(s.default), s.accepts, s.doc, s.source or "-"


def metrics_table() -> Iterator[tuple[str, ...]]:
    """What `GET /metrics` counts."""
    from prometheus_client import Counter  # noqa: PLC0415

    from dare_service.metrics import GroupHistogram, Metrics  # noqa: PLC0415

    yield "metric", "meaning"
    for metric in Metrics().registry._collector_to_names:  # noqa: SLF001  it lists metrics that have counted nothing
        if isinstance(metric, GroupHistogram):
            yield f"`{metric.name}`", metric.meaning
        else:
            known = vars(metric)
            labels = f"{{{','.join(known['_labelnames'])}}}" * bool(known["_labelnames"])
            yield f"`{known['_name']}{'_total' * (isinstance(metric, Counter))}{labels}`", known["_documentation"]


def sentence(file: Path) -> str:
    """The first line of a file's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "-"
    return text.partition("\n")[0]


def scripts_table() -> Iterator[tuple[str, ...]]:
    """What a developer runs."""
    yield "script", "what it does"
    files = (*(ROOT / "scripts").glob("[!_]*.py"), *(ROOT / "tests" / "faults").glob("*.py"))
    for file in (*sorted(files), ROOT / "tests" / "bench" / "peers.py", ROOT / "tests" / "calls.py"):
        if "__main__" in file.read_text(encoding="utf-8"):
            yield f"`{file.relative_to(ROOT).as_posix().removeprefix('scripts/')}`", sentence(file)


def modules_table(room: str) -> Iterator[tuple[str, ...]]:
    """The modules of a package, such as client/dare_reward."""
    yield "module", "what it is for"
    for file in sorted((ROOT / room).rglob("*.py")):
        if file.name != "__init__.py":
            yield f"`{file.relative_to(ROOT / room).as_posix()}`", sentence(file)


def routes_table() -> Iterator[tuple[str, ...]]:
    """The routes of openapi.json."""
    yield "route", "what it does", "query and headers", "status"
    for path, operations in json.loads(openapi())["paths"].items():
        for verb, operation in operations.items():
            named = ", ".join(f"`{p['name']}`" for p in operation.get("parameters", ())) or "-"
            yield f"`{verb.upper()} {path}`", operation["summary"], named, ", ".join(operation["responses"])


def schema_type(schema: dict[str, Any]) -> str:
    """What a JSON schema accepts, in a few words."""
    if "$ref" in schema:
        return f"[{(name := schema['$ref'].rpartition('/')[2])}](#{name.lower()})"
    if inner := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(schema_type, inner)))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {schema_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def schemas() -> str:
    """The bodies of openapi.json: a section for each, with its fields. Markdown, as it stands in the reference."""
    parts = []
    for name, schema in json.loads(openapi())["components"]["schemas"].items():
        required = schema.get("required", ())
        rows = [
            f"| `{field}`{' *' if field in required else ''} | {schema_type(inner)} | "
            f"{' '.join(inner.get('description', '').split()) or '-'} |".replace("||", "\\|\\|")
            for field, inner in schema.get("properties", {}).items()
        ]
        parts += [f"### {name}", "", "| field | type | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(parts).rstrip()


TABLES: dict[str, Callable[[], Iterator[Sequence[str]]]] = {
    "settings": settings_table,
    "adapter": adapter_table,
    "logs": partial(logs_table, "url"),
    "actor": partial(logs_table, "actor"),
    "group-settings": group_settings_table,
    "shadow": partial(meanings, "dare_reward.scoring.shadow_methods:LOGS", "key", "meaning", form="`shadow_METHOD_{}`"),
    "names": names_table,
    "charts": charts_table,
    "rules": rules_table,
    "reasons": partial(meanings, "dare_reward.report.picks:REASONS", "reason", "the group"),
    "no-answer": partial(meanings, "dare_reward.answers.extraction.final_answer:WHY_NONE", "`no_answer`", "meaning"),
    "line": line_table,
    "commands": commands_table,
    "group-inputs": group_inputs_table,
    "methods": methods_table,
    "parameters": partial(parameters_table, answers=False),
    "answer-parameters": partial(parameters_table, answers=True),
    "inputs": partial(inputs_table, group=False),
    "inputs-of-group": partial(inputs_table, group=True),
    "advantages": advantages_table,
    "waves": waves_table,
    "routes": routes_table,
    "numbers": numbers_table,
    "metrics": metrics_table,
    "scripts": scripts_table,
    "client": partial(modules_table, "client/dare_reward"),
    "service": partial(modules_table, "service/dare_service"),
    "trainer": partial(modules_table, "trainer/dare_trainer"),
    "warnings": partial(meanings, "dare_service.metrics:EVENTS", "event", "meaning"),
}


def words() -> dict[str, int]:
    """Words of each page of docs/ outside the blocks that are made from the code."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    written = {page: GENERATED.sub("", BLOCK.sub("", page.read_text(encoding="utf-8"))) for page in pages}
    return {str(page.relative_to(ROOT)): len(text.split()) for page, text in written.items()}


def table(name: str) -> str:
    """One of TABLES in Markdown."""
    if name == "schemas":
        return schemas()
    head, *rows = TABLES[name]()
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [" | ".join(head), "---|" * len(head), *(" | ".join(row) for row in cells)]
    return "\n".join(f"|{line}" if line.startswith("---") else f"| {line} |" for line in lines)


def site() -> int:
    """Build the site; 0 if there was no warning, and no page loads anything from another host."""
    import _site  # noqa: PLC0415  who renews a table needs no environment of the site
    import _venv  # noqa: PLC0415

    python = _venv.ensure("docs", ["-e .[service,cli]"], groups=["docs"])
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement, not a warning
    built = subprocess.run([python, "-m", "mkdocs", "build", "--strict"], cwd=ROOT, env=quiet, check=False)
    found = _site.foreign(ROOT / "build" / "site")
    print(
        "\n".join(
            [*(f"loads from another host: {line}" for line in found), f"the site is in {ROOT / 'build' / 'site'}"]
        )
    )
    return built.returncode or int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", choices=[*TABLES, "schemas"])
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--site", action="store_true")
    parser.add_argument("files", nargs="*", type=Path, help="documents (default: all, and openapi.json)")
    arguments = parser.parse_args()
    if arguments.site:
        return site()
    if arguments.words:
        for page, count in (counts := words()).items():
            print(f"{count:6,}  {page}")
        print(f"{sum(counts.values()):6,}  in all")
        return 0
    if arguments.table:
        print(table(arguments.table))
        return 0
    documents = [f.resolve() for f in arguments.files] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with service() as address:
        fresh = {file: renew(file.read_text(encoding="utf-8"), address) for file in documents}
    if not arguments.files:
        fresh[ROOT / "service" / "dare_service" / "openapi.json"] = openapi()
    stale = {file: text for file, text in fresh.items() if file.read_text(encoding="utf-8") != text}
    for file, text in stale.items():
        print(f"{'stale' if arguments.check else 'renewed'}: {file.relative_to(ROOT)}")
        if not arguments.check:
            file.write_text(text, encoding="utf-8")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
