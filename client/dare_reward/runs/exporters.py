"""The trackers that a run log is exported to, each imported where it is used: trackio, W&B, TensorBoard."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from ..errors import RequestError
from ..numbers import pooled
from .tracker import COLUMNS, messages, table_rows, worth_reading

JSON = Mapping[str, Any]
TABLE: Final = "dare/table"  # dare/groups is how many there are
TRACES: Final = "dare/traces"
UNNUMBERED: Final = 128  # groups of a step, where lines name none
OPEN: Final = 4  # steps whose groups may still come


class Exporter(Protocol):
    """One run of a tracker."""

    def log(self, step: int, values: Mapping[str, float], rows: Sequence[JSON], lines: Sequence[JSON]) -> None:
        """Scalars by their full names, the rows of the table, and the lines for traces."""

    def close(self) -> None: ...


def steps(lines: Iterable[JSON]) -> Iterator[tuple[int, list[JSON], bool]]:
    """The lines of each step, in the order of the steps, and whether they are in time.

    Groups of neighbouring steps may be mixed, as they are where sampling is asynchronous; a group that comes more than
    three steps late is yielded alone, as not in time. Lines without a step make one of 128 groups each.
    """
    waiting: OrderedDict[int, list[JSON]] = OrderedDict()
    count, done = 0, -1
    for line in lines:
        step = line.get("step")
        step = count // UNNUMBERED if step is None else int(step)
        count += 1
        if step <= done:
            yield step, [line], False
            continue
        waiting.setdefault(step, []).append(line)
        while len(waiting) > OPEN:
            done = min(waiting)
            yield done, waiting.pop(done), True
    for step in sorted(waiting):
        yield step, waiting[step], True


def export(lines: Iterable[JSON], exporter: Exporter) -> tuple[int, int, int]:
    """Log each step; how many there were, of how many groups, and how many groups came too late for theirs."""
    done = groups = late = 0
    for step, rows, in_time in steps(lines):
        if not in_time:
            late += len(rows)
            continue
        chosen = worth_reading(rows)
        values = {f"dare/{name}": value for name, value in pooled(rows).items()}
        exporter.log(step, values, table_rows(chosen), [line for line, _ in chosen])
        done += 1
        groups += len(rows)
    return done, groups, late


@contextmanager
def _needed(module: str) -> Iterator[None]:
    """RequestError if what is imported in the block is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise RequestError(f"{module} is not installed: pip install {module}", code="missing_package") from None


class Trackio:
    """Scalars, table and traces, in a project of the local trackio."""

    def __init__(self, project: str, name: str) -> None:
        with _needed("trackio"):
            import trackio  # noqa: PLC0415
        self._trackio: Any = trackio
        self._run = self._trackio.init(project=project, name=name, embed=False, auto_log_gpu=False, auto_log_cpu=False)

    def log(self, step: int, values: Mapping[str, float], rows: Sequence[JSON], lines: Sequence[JSON]) -> None:
        table = self._trackio.Table(columns=list(COLUMNS), data=[[row[c] for c in COLUMNS] for row in rows])
        traces = [
            self._trackio.Trace(messages=turns, metadata=known) for line in lines for turns, known in messages(line)
        ]
        self._trackio.log({**values, TABLE: table, TRACES: traces}, step=step)

    def close(self) -> None:
        self._trackio.finish()


class Wandb:
    """Scalars and table, as a run of W&B; WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, project: str, name: str) -> None:
        with _needed("wandb"):
            import wandb  # noqa: PLC0415
        self._wandb: Any = wandb
        self._run = self._wandb.init(project=project, name=name, job_type="dare-reward export")

    def log(self, step: int, values: Mapping[str, float], rows: Sequence[JSON], lines: Sequence[JSON]) -> None:  # noqa: ARG002
        table = self._wandb.Table(
            columns=list(COLUMNS), data=[[row[c] for c in COLUMNS] for row in rows], allow_mixed_types=True
        )
        self._run.log({**values, TABLE: table}, step=step)

    def close(self) -> None:
        self._run.finish()


class TensorBoard:
    """Scalars, and the table as Markdown, in a folder of event files."""

    def __init__(self, project: str, name: str) -> None:
        with _needed("tensorboardX"):
            from tensorboardX import SummaryWriter  # noqa: PLC0415
        folder = Path(os.environ.get("TENSORBOARD_DIR", "tensorboard_log")) / project / name
        self._writer = SummaryWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float], rows: Sequence[JSON], lines: Sequence[JSON]) -> None:  # noqa: ARG002
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.add_text(TABLE, _markdown(rows), step)

    def close(self) -> None:
        self._writer.close()


def _markdown(rows: Sequence[JSON]) -> str:
    def cell(value: Any) -> str:
        return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")

    head = [" | ".join(COLUMNS), "|".join("---" for _ in COLUMNS)]
    return "\n".join([*head, *(" | ".join(cell(row[c]) for c in COLUMNS) for row in rows)])


EXPORTERS: Final[Mapping[str, Callable[[str, str], Exporter]]] = MappingProxyType(
    {"trackio": Trackio, "wandb": Wandb, "tensorboard": TensorBoard}
)
