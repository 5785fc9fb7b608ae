"""Prometheus metrics: base units, few labels, one registry per application."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client import values as value_classes
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dare_reward import Reply, __version__
from dare_reward.numbers import BY_NAME, MAJORITY

# A PROMETHEUS_MULTIPROC_DIR of the environment would send every count through files: this is one process.
value_classes.ValueClass = value_classes.MutexValue
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 100)
BYTES = tuple(4.0**n for n in range(5, 14))
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


# Label values that are known before they occur. A series that begins with its first event has no increase: what happens
# once would raise no alert.
EVENTS: Final[Mapping[str, str]] = {
    "group_unfilled": "a group is incomplete after its first hold: `group_size` may exceed the samples of a prompt",
    "prompt_repeated": "a prompt filled two groups in one step: `group_size` may be less than the samples of a prompt, "
    "or two jobs have one name. The rollouts carry `repeated`",
    "label_conflict": "rollouts of one group have labels that contradict each other: it is scored without a label",
    "kind_conflict": "rollouts of one prompt have labels of two kinds: their rewards are equal",
    "options_conflict": "rollouts of one prompt have labels with two sets of options: their rewards are equal",
    "token_ignored": "a client sends a token, but the service has none",
    "no_token": "the service has no token, and other machines can reach it, or `DARE_TRUSTED_PROXIES` or an empty "
    "`DARE_TOKEN` says that it was meant to have one",
    "run_log_unwritable": "the service cannot write to `DARE_RUN_LOG`: the log's line names the folder",
    "run_log_failed": "groups are missing in the run log: the disk is full, or the folder cannot be written",
    "run_log_full": "groups are missing in the run log, because they came faster than it is written",
    "page_failed": "groups are missing on the page, or an old run log cannot be read for it",
    "setting_ignored": "a variable is named `DARE_...`, but nothing reads it, or `PROMETHEUS_MULTIPROC_DIR` is set",
}
REASONS: Final = (
    *("body", "busy", "conflict", "content_length", "deadline", "draining", "encoding", "groups", "held", "host"),
    *("incomplete", "json", "media_type", "memory", "method", "missing_parameter", "parameter", "rollouts", "steps"),
    *("text", "token", "total", "type", "unknown_field", "unknown_parameter", "value", "workers"),
)
GROUP_ERRORS: Final = ("label_conflict", "missing_entropy", "missing_input", "missing_probability", "topk")
CODES: Final = (200, 400, 401, 403, 408, 413, 415, 422, 500, 503)


class GroupHistogram(Collector):
    """A `Histogram` of a number of each group; the caller takes one lock for all groups of a request.

    `Histogram.observe` takes 3.4 us: 1.3 ms for the three numbers of 128 groups.
    """

    def __init__(self, name: str, meaning: str, bounds: tuple[float, ...], registry: CollectorRegistry) -> None:
        self.name, self.meaning, self.bounds = name, meaning, bounds
        self.counts, self.total, self.created = [0] * (len(bounds) + 1), 0.0, time.time()
        registry.register(self)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self.name, self.meaning)
        names = map(floatToGoString, (*self.bounds, float("inf")))
        family.add_metric([], list(zip(names, map(float, accumulate(self.counts)), strict=True)), self.total)
        family.add_sample(f"{self.name}_created", {}, self.created)
        yield family


class Metrics:
    """What the service counts. `/metrics` renders it."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        # A metric with its labels, which costs more to look up than to count with.
        self.of = cache(lambda metric, *labels: metric.labels(*labels))
        counter, gauge = partial(Counter, registry=r), partial(Gauge, registry=r)
        histogram = partial(Histogram, registry=r)
        seconds = partial(histogram, buckets=SECONDS)
        self.requests = counter("dare_requests_total", "Requests by route and status", ["route", "code"])
        self.seconds = seconds("dare_request_seconds", "Time from the first byte to the reply", ["route"])
        self.decode_seconds = seconds("dare_decode_seconds", "Parsing of a body", ["format"])
        self.estimate_seconds = seconds("dare_estimate_seconds", "Answers and rewards of a request")
        self.bytes = histogram("dare_request_bytes", "Size of a body", ["format"], buckets=BYTES)
        self.inflight = gauge("dare_inflight_bytes", "Bytes of bodies that are being received or scored")
        self.rejected = counter("dare_rejected_total", "Refused requests by rule", ["reason"])
        self.groups = counter("dare_groups_total", "Groups scored", ["method"])
        self.group_errors = counter("dare_group_errors_total", "Groups that could not be scored", ["code"])
        self.rollouts = counter("dare_rollouts_total", "Rollouts scored", ["method"])
        self._lock = threading.Lock()  # of these three
        self.size = GroupHistogram("dare_votes", BY_NAME["votes"].meaning, tuple(2.0**n for n in range(11)), r)
        collapse = BY_NAME[MAJORITY].meaning + ": towards 1, a run collapses"
        self.majority = GroupHistogram("dare_majority_ratio", collapse, SHARES, r)
        self.reward = GroupHistogram("dare_reward", BY_NAME["reward"].meaning + ", a group each", SHARES, r)
        self.join_waiting = gauge("dare_join_waiting", "Rollouts that wait for their siblings")
        self.join_open = gauge("dare_join_open_groups", "Groups that are not complete")
        self.join_bytes = gauge("dare_join_bytes", "Rollouts that wait and rewards that are kept, about")
        closed = "Joined groups: full, or closed at the deadline and scored (partial) or not (neutral)"
        self.join_groups = counter("dare_join_groups_total", closed, ["end"])
        meaningless = "Rollouts of OpenRLHF whose label means nothing; they train without a label"
        self.ignored_labels = counter("dare_ignored_labels_total", meaningless)
        explained = "Runs in which something was found that the log and GET /info explain"
        self.warnings = counter("dare_warnings_total", explained, ["event"])
        known = ((self.warnings, EVENTS), (self.rejected, REASONS), (self.group_errors, GROUP_ERRORS))
        for labelled, values in (*known, (self.join_groups, ("full", "partial", "neutral"))):
            for value in values:
                labelled.labels(value)
        gauge("dare_build_info", "Always 1", ["version"]).labels(__version__).set(1)

    def observe_groups(self, reply: Reply) -> None:
        """What was scored."""
        for group in reply.groups:
            if group.error is not None:
                self.group_errors.labels(group.error.code).inc()
        scored = [g for g in reply.groups if g.error is None]
        sizes = [len(g.valid or ()) for g in scored]
        self.of(self.groups, reply.method).inc(len(sizes))
        self.of(self.rollouts, reply.method).inc(sum(sizes))
        observed: tuple[tuple[GroupHistogram, Sequence[float]], ...] = (
            (self.size, sizes),
            (self.majority, [(g.diagnostics or {}).get(MAJORITY, 0.0) for g in scored]),
            (self.reward, [sum(g.rewards) / len(g.rewards) for g in scored if g.rewards]),
        )
        with self._lock:
            for histogram, values in observed:
                histogram.total += sum(values)
                for value in values:
                    histogram.counts[bisect_left(histogram.bounds, value)] += 1

    def render(self) -> bytes:
        return generate_latest(self.registry)
