"""The page on which a person labels: a server of this machine alone, until the person ends it.

It listens on 127.0.0.1. Its address holds a random token, so that neither another user nor a page of another site can
read or write, and the name in `Host` must be the loopback's, so that no site can make its own name point here.

A question shows each distinct answer with its votes. Their order is drawn by the group's id, so that neither the order
nor the most voted answer leads the eye, and stays the same when the work is resumed. Certainties are not shown.
"""

from __future__ import annotations

import json
import random
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from dare_reward.analysis.shown import Shown
from dare_reward.answers.classes import grades
from dare_reward.answers.labels import read_labels
from dare_reward.errors import RequestError
from dare_reward.files.labels import DECISIONS, FileLabel, LabelFile
from dare_reward.files.output import append_line, mend_end
from dare_reward.report.document import ALONE, document
from dare_reward.scoring.request import prepare_file

KEYS: Final = 9  # answers that have a key; the others can be chosen too
LONGEST: Final = 2000  # characters of an answer that is typed


@dataclass(frozen=True, slots=True)
class Choice:
    """A distinct answer: how many rollouts give it, and their texts, each with how often it came."""

    answer: str
    votes: int
    texts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """A prompt with its answers, those with a key first; `silent` rollouts give none."""

    group_id: str
    prompt: str
    kind: str
    options: tuple[str, ...] | None
    choices: tuple[Choice, ...]
    silent: int

    def votes(self, label: str) -> int:
        """Rollouts whose answer a label would call right."""
        kind = cast("Any", self.kind)
        accepted = read_labels(label, kind=kind, options=self.options)
        right = grades([c.answer for c in self.choices], accepted, kind=kind, options=self.options)
        return sum(c.votes for c, own in zip(self.choices, right, strict=True) if own)


def question_of(group: Mapping[str, Any]) -> LabelQuestion:
    """The question that a group makes. RequestError if it cannot be read."""
    prepared = prepare_file([group])
    groups, rollouts = prepared.groups, group["rollouts"]
    texts = [Counter[str]() for _ in groups.text_A]
    for place, rollout in zip(groups.answer_R.tolist(), rollouts, strict=True):
        if place >= 0:
            texts[place][str(rollout.get("text") or "")] += 1
    every = [
        Choice(answer, sum(own.values()), tuple(own.most_common()))
        for answer, own in zip(groups.text_A, texts, strict=True)
    ]
    every.sort(key=lambda choice: -choice.votes)
    first = every[:KEYS]
    random.Random(str(group["group_id"])).shuffle(first)  # noqa: S311  (an order, no secret)
    return LabelQuestion(
        str(group["group_id"]),
        str(group.get("prompt") or ""),
        prepared.kinds[0],
        prepared.options[0],
        (*first, *every[KEYS:]),
        len(rollouts) - sum(choice.votes for choice in every),
    )


class Session:
    """Questions in their order, and what was decided, now or on an earlier day, in the file of labels."""

    def __init__(self, questions: Sequence[LabelQuestion], file: Path, *, tell: Callable[[str], None]) -> None:
        self.questions = tuple(questions)
        self.file = file
        self.labels: dict[str, FileLabel] = {}
        self._lock = Lock()
        if file.exists() and file.stat().st_size:
            self.labels = LabelFile(str(file), tell=tell, empty=True).entries
            if file.read_bytes().lstrip()[:1] not in {b"", b"{"}:
                raise RequestError(f"{file} holds no JSON lines. Name another file of labels.", code="labels")
            mend_end(file)
            for question in questions:
                found = self.labels.get(question.group_id)
                if found and found.prompt and question.prompt and found.prompt != question.prompt:
                    raise RequestError(
                        f"{file} has another prompt for {question.group_id[:64]!r}: it labels another file. Name a new "
                        "one with --labels.",
                        code="labels",
                    )

    def decide(self, group_id: str, decision: str, label: str | None) -> int:
        """How many rollouts a decision calls right, once it is on the disk. RequestError if it makes no sense."""
        question = next((q for q in self.questions if q.group_id == group_id), None)
        if question is None:
            raise RequestError("no question has this group_id", code="group")
        if decision not in DECISIONS:
            raise RequestError(f"decision must be one of {', '.join(DECISIONS)}", code="decision")
        label = label.strip() if decision == "right" and label else None
        if decision == "right" and (not label or len(label) > LONGEST):
            raise RequestError(f"a right answer has 1 to {LONGEST:,} characters", code="label")
        found = FileLabel(group_id, decision, label, question.prompt or None)
        votes = question.votes(label) if label else 0
        with self._lock:
            append_line(self.file, found.row())
            self.labels[group_id] = found
        return votes

    def summary(self) -> str:
        """`20 of 32 prompts: 17 right answers, 1 without one, 2 undecided`."""
        own = Counter(self.labels[q.group_id].decision for q in self.questions if q.group_id in self.labels)
        parts = f"{own['right']} right answers, {own['none']} without one, {own['unknown']} undecided"
        return f"{sum(own.values())} of {len(self.questions)} prompts: {parts}"


ASSETS: Final = ("report.css", "label.css", "report.js", "label.js")
SENT: Final = {"group_id": str, "decision": str, "label": str | None}  # of a decision
HEADERS: Final = {**ALONE, "X-Content-Type-Options": "nosniff"}
NAMES: Final = frozenset({"127.0.0.1", "localhost"})


class LabelServer(ThreadingHTTPServer):
    """Serves until the page says that the person has finished, when it shows `verdict` and advises `next_command`."""

    daemon_threads = True

    def __init__(
        self,
        session: Session,
        *,
        port: int = 0,
        next_command: str = "",
        verdict: Callable[[], Shown | None] = lambda: None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.session, self.next_command, self.verdict = session, next_command, verdict
        self.token = secrets.token_urlsafe(24)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing on the person's terminal of a page that was closed before it was there."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"

    def content(self) -> str:
        """The page, with all questions and what is decided now."""
        every, labels = self.session.questions, self.session.labels
        questions = [asdict(q) | {"rollouts": q.silent + sum(c.votes for c in q.choices)} for q in every]
        decisions = {q.group_id: asdict(labels[q.group_id]) for q in every if q.group_id in labels}
        data = {
            "questions": questions, "decisions": decisions, "file": str(self.session.file), "next": self.next_command,
        }  # fmt: skip
        return document(data, assets=ASSETS, block="questions", asks="'self'")


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    timeout = 30

    def do_GET(self) -> None:
        self._serve({"": self.server.content}, "text/html")

    def do_POST(self) -> None:
        self._serve({"decision": self._decide, "finish": self._finish}, "application/json")

    def _serve(self, routes: Mapping[str, Callable[[], str]], kind: str) -> None:
        """Reply with what the route gives that follows the token in the path; refuse a caller that is not the page."""
        host = self.headers.get("Host", "")
        origin = self.headers.get("Origin", "null")  # what a browser may send of a page without a referrer
        token, slash, route = self.path.partition("?")[0].lstrip("/").partition("/")
        if host.partition(":")[0] not in NAMES or (origin != "null" and origin.partition("://")[2] != host):
            self._reply(HTTPStatus.FORBIDDEN, "reach this page as 127.0.0.1 or localhost")
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._reply(HTTPStatus.NOT_FOUND, "no such address: the command printed the whole of it")
        elif not slash or route not in routes:  # without its slash, the page's own addresses would lead past the token
            self._reply(HTTPStatus.NOT_FOUND, "no such address")
        else:
            try:
                content = routes[route]()
            except RequestError as error:
                self._reply(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
            except OSError as error:  # a full disk: the page must not go on
                self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, f"{self.server.session.file}: {error.strerror}")
            else:
                self._reply(HTTPStatus.OK, content, kind)
                if route == "finish":
                    self.server.shutdown()

    def _decide(self) -> str:
        body = self._body()
        if body.keys() != SENT.keys() or not all(isinstance(body[name], kind) for name, kind in SENT.items()):
            raise RequestError("group_id, decision and label have other types", code="type")
        return json.dumps({"votes": self.server.session.decide(**body)})

    def _finish(self) -> str:
        self._body()
        shown = self.server.verdict()
        return json.dumps({} if shown is None else {"headline": shown.headline, "why": shown.why})

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not re.fullmatch("[0-9]{1,5}", length):
            raise RequestError("must be a short JSON object", code="body")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise RequestError("is no JSON", code="json") from None
        if not isinstance(body, dict):
            raise RequestError("must be an object", code="type")
        return body

    def _reply(self, status: HTTPStatus, content: str, kind: str = "text/plain") -> None:
        data = content.encode()
        own = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data))}
        self.send_response(status)
        for name, value in {**HEADERS, **own}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal is the person's."""
