"""Flows: the table of what the generator can do to a broker. A new flow is a row here.

A flow is a `Job` of the generator. Its figure is deliveries per second, or the time of a round
trip. With `beside`, another endless load saturates the same broker meanwhile. The numbers of
messages are chosen so that one repetition takes about a second on Covey.

This module needs only the standard library: it is read before anything is set up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

KIB: Final = 1024
SIZES: Final = (128, KIB)
CREDIT: Final = 1000  # messages a consumer may hold, similar to the peers' defaults
FAN_OUT_WINDOW: Final = 2000  # each of them is ten deliveries
GROUPS: Final = 1000
DURABLE_WINDOW: Final = 100  # messages without a receipt that a careful producer allows
DURABLE_SIZE: Final = 1024
AMQP_SIZE: Final = 128

GROUPS_FLOW: Final = "groups"

RATE: Final = "deliveries/s"
LATENCY: Final = "us"


@dataclass(frozen=True, slots=True)
class Workload:
    """One row: what the generator does, apart from size and destination."""

    name: str
    about: str
    place: str  # the destination; each repetition gets its own, named after it
    job: Mapping[str, Any]
    count: int
    is_for_peers: bool = True
    sizes: tuple[int, ...] = SIZES
    beside: Mapping[str, Any] | None = None  # the job of the load that saturates the broker
    count_min: int = 100  # messages, however small the scale
    needs: str = "stomp"  # the protocol a contender must speak besides STOMP

    @property
    def unit(self) -> str:
        """Return the unit of the figure."""
        return LATENCY if self.job.get("is_ping_pong") else RATE


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at one size."""

    workload: Workload
    size: int

    @property
    def name(self) -> str:
        """Name the case in tables."""
        return f"{self.workload.name}, {self.size} B"


_DURABLE: Final = {
    "ack": "client-individual",
    "credit": CREDIT,
    "is_persistent": True,
    "is_confirmed": True,
    "window": DURABLE_WINDOW,
}
_AMQP: Final = {"sender": "amqp", "receiver": "amqp", "ack": "each", "is_confirmed": True}
_AMQP_DURABLE: Final = {**_AMQP, "is_persistent": True}
_INDIVIDUAL: Final = {"consumers": 4, "ack": "client-individual", "credit": CREDIT}

# `flows` has one of GROUPS_FLOW for each strategy.
TABLE: Final = (
    Workload("queue", "1 producer, 1 consumer, auto", "/queue/bench.plain", {}, 100_000),
    Workload(
        "individual",
        "1 producer, 4 consumers, client-individual",
        "/queue/bench.plain",
        _INDIVIDUAL,
        60_000,
    ),
    Workload(
        "topic",
        "1 producer, 10 subscribers, auto",
        "/topic/bench.topic",
        {"consumers": 10, "is_fan_out": True, "window": FAN_OUT_WINDOW},
        20_000,
    ),
    Workload(
        GROUPS_FLOW,
        f"1 producer, 4 consumers, client-individual, {GROUPS} groups",
        "/queue/bench",
        {**_INDIVIDUAL, "groups": GROUPS},
        60_000,
    ),
    Workload(
        "latency",
        "one message at a time, 1 producer, 1 consumer, auto",
        "/queue/bench.plain",
        {"is_ping_pong": True},
        3_000,
    ),
    Workload(
        "durable",
        f"persistent, a receipt each, {DURABLE_WINDOW} in flight, 1 consumer, client-individual",
        "/queue/bench.durable",
        _DURABLE,
        20_000,
        sizes=(DURABLE_SIZE,),
    ),
    Workload(
        "durable-1",
        "the same, 1 in flight",
        "/queue/bench.durable",
        {**_DURABLE, "window": 1},
        1_000,
        sizes=(DURABLE_SIZE,),
    ),
    Workload(
        "durable-5000",
        "the same, 5,000 in flight",
        "/queue/bench.durable",
        {**_DURABLE, "window": 5000},
        30_000,
        sizes=(DURABLE_SIZE,),
    ),
    Workload(
        "amqp-durable-1",
        "AMQP 1.0, durable, accepted on both sides, 1 in flight",
        "/queue/bench.amqp",
        {**_AMQP_DURABLE, "window": 1},
        1_000,
        sizes=(DURABLE_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-durable-100",
        "the same, 100 in flight",
        "/queue/bench.amqp",
        {**_AMQP_DURABLE, "window": 100},
        20_000,
        sizes=(DURABLE_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-durable",
        "the same, 5,000 in flight",
        "/queue/bench.amqp",
        {**_AMQP_DURABLE, "window": 5000},
        30_000,
        sizes=(DURABLE_SIZE,),
        needs="amqp",
    ),
    Workload(
        "connections",
        "500 producers, 500 consumers, one queue, auto",
        "/queue/bench.plain",
        {"producers": 500, "consumers": 500},
        50_000,
        sizes=(AMQP_SIZE,),
    ),
    Workload(
        "large",
        "messages of 100 KiB, 20 in flight, 1 producer, 1 consumer, auto",
        "/queue/bench.plain",
        {"window": 20},
        2_000,
        sizes=(100 * KIB,),
    ),
    Workload(
        "huge",
        "messages of 10 MiB, 2 in flight, 1 producer, 1 consumer, auto",
        "/queue/bench.plain",
        {"window": 2},
        20,
        sizes=(10 * KIB * KIB,),
        count_min=5,
    ),
    Workload(
        "durable-beside",
        "the same while a queue of non-persistent messages saturates the broker",
        "/queue/bench.durable",
        _DURABLE,
        5_000,
        sizes=(DURABLE_SIZE,),
        beside={},
    ),
    Workload(
        "amqp",
        "AMQP 1.0, 1 producer, 1 consumer, each message accepted on both sides",
        "/queue/bench.amqp",
        _AMQP,
        40_000,
        sizes=(AMQP_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-settled",
        "AMQP 1.0, 1 producer, 1 consumer, sent settled on both sides",
        "/queue/bench.amqp",
        {"sender": "amqp", "receiver": "amqp"},
        40_000,
        sizes=(AMQP_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-to-stomp",
        "an AMQP 1.0 producer, each message accepted, 1 STOMP consumer, auto",
        "/queue/bench.amqp",
        {"sender": "amqp", "is_confirmed": True},
        40_000,
        sizes=(AMQP_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-groups",
        f"AMQP 1.0, 1 producer, 4 consumers, each message accepted on both sides, {GROUPS} groups",
        "/queue/bench.amqp",
        {**_AMQP, "consumers": 4, "groups": GROUPS},
        40_000,
        is_for_peers=False,
        sizes=(AMQP_SIZE,),
        needs="amqp",
    ),
    Workload(
        "amqp-latency",
        "AMQP 1.0, one message at a time, 1 producer, 1 consumer, sent settled",
        "/queue/bench.amqp",
        {"sender": "amqp", "receiver": "amqp", "is_ping_pong": True},
        3_000,
        is_for_peers=False,
        sizes=(AMQP_SIZE,),
        needs="amqp",
    ),
)
