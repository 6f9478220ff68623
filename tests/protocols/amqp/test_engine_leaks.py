"""Nothing is left behind: links and connections that come and go leave memory flat.

Measured in a process of its own and by what the system has given it, because proton keeps its
memory outside of Python. The process of the whole test run is no measure: it holds Spark's client,
what its threads free and take meanwhile, and some hundred megabytes of other tests' leftovers.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from covey.protocols.amqp.engine import AmqpEngine
from tests.protocols.amqp.peer import OPEN_TO_ALL, Peer, make_broker
from tests.protocols.amqp.recording import feed, record_session

pytestmark = pytest.mark.slow

WARM_UP = 500
ROUNDS = 2_000
GROWTH_MAX = 1_000 * 1024  # half a kilobyte a round; a forgotten link or session is more


def resident_bytes() -> int:
    """Return the memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth_of(a_round: Callable[[int], None]) -> int:
    """Return how much memory the rounds after the first ones have added."""
    for number in range(WARM_UP):
        a_round(number)
    before = resident_bytes()
    for number in range(WARM_UP, WARM_UP + ROUNDS):
        a_round(number)
    return resident_bytes() - before


def growth_by_links() -> int:
    """Attach and detach senders and receivers on one connection."""
    peer = Peer(make_broker())

    def a_round(number: int) -> None:
        link = peer.session.receiver(f"r{number}") if number % 2 else peer.session.sender("s")
        (link.source if number % 2 else link.target).address = "q"
        link.open()
        peer.pump()
        link.close()
        peer.pump()
        link.free()
        peer.ended.clear()
        peer.sent.clear()

    growth = growth_of(a_round)
    assert not peer.engine.links.open
    return growth


def growth_by_connections() -> int:
    """Let clients connect, send, receive and be lost."""
    broker = make_broker()
    recorded = record_session()

    def a_round(number: int) -> None:
        engine = AmqpEngine(broker, OPEN_TO_ALL)
        feed(engine, recorded)
        engine.lost(1.0)
        broker.host.delete_queue("fuzz", "start anew")

    growth = growth_of(a_round)
    assert not broker.sessions
    return growth


def measured_alone(growth: Callable[[], int]) -> int:
    """Return what `growth` finds in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(growth).result()


def test_attaching_and_detaching_leaves_memory_flat() -> None:
    assert measured_alone(growth_by_links) < GROWTH_MAX


def test_connections_leave_memory_flat() -> None:
    assert measured_alone(growth_by_connections) < GROWTH_MAX
