"""Prometheus metrics: base units, few labels, one registry per application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dare_reward import __version__

__all__ = ["Metrics"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 100)
BYTES = tuple(4.0**n for n in range(5, 14))
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Metrics:
    """What the service counts. `/metrics` renders it."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self.requests = Counter("dare_requests_total", "Requests", ["route", "code"], registry=r)
        self.seconds = Histogram(
            "dare_request_seconds", "Time from the first byte to the reply", ["route"], buckets=SECONDS, registry=r
        )
        self.decode_seconds = Histogram(
            "dare_decode_seconds", "Parsing of a body", ["format"], buckets=SECONDS, registry=r
        )
        self.estimate_seconds = Histogram(
            "dare_estimate_seconds", "Answers and rewards of a request", buckets=SECONDS, registry=r
        )
        self.bytes = Histogram("dare_request_bytes", "Size of a body", ["format"], buckets=BYTES, registry=r)
        self.inflight = Gauge("dare_inflight_bytes", "Bytes of bodies held now", registry=r)
        self.rejected = Counter("dare_rejected_total", "Refused requests", ["reason"], registry=r)
        self.groups = Counter("dare_groups_total", "Groups scored", ["method"], registry=r)
        self.group_errors = Counter("dare_group_errors_total", "Groups that could not be scored", ["code"], registry=r)
        self.rollouts = Counter("dare_rollouts_total", "Rollouts scored", ["method"], registry=r)
        self.size = Histogram(
            "dare_group_size", "Rollouts of a group", buckets=tuple(2.0**n for n in range(11)), registry=r
        )
        self.majority = Histogram(
            "dare_majority_share", "Votes of a group's most voted answer over M", buckets=SHARES, registry=r
        )
        self.reward = Histogram("dare_reward_mean", "Mean reward of a group", buckets=SHARES, registry=r)
        Gauge("dare_build_info", "Always 1", ["version"], registry=r).labels(__version__).set(1)

    def render(self) -> bytes:
        return generate_latest(self.registry)
