"""BEGIN, COMMIT, ABORT: all or nothing, whoever leaves meanwhile."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import World


@pytest.fixture(params=["at once", "in portions"])
def world(request: pytest.FixtureRequest) -> World:
    """Whether it is long or short, a transaction does the same."""
    world = World(limits={"work_portion": 1} if request.param == "in portions" else {})
    world.does_jobs = True
    return world


def test_nothing_of_a_transaction_is_seen_before_its_commit(world: World) -> None:
    client = world.connect()
    client.send("BEGIN", {"transaction": "t", "receipt": "r1"})
    client.publish("/queue/a", "x", transaction="t", receipt="r2")
    assert client.receipts() == ["r1"]
    assert world.depth("/queue/a") == 0
    client.send("COMMIT", {"transaction": "t", "receipt": "r3"})
    assert client.receipts() == ["r2", "r3"]
    assert world.depth("/queue/a") == 1


def test_abort_undoes_everything(world: World) -> None:
    client = world.connect()
    client.publish("/queue/in", "x")
    client.subscribe("/queue/in", ack="client-individual")
    message = client.take()
    client.ack(message, transaction="t")
    client.publish("/queue/out", "y", transaction="t")
    client.send("ABORT", {"transaction": "t", "receipt": "r"})
    assert client.receipts() == ["r"]
    assert (world.depth("/queue/in"), world.depth("/queue/out")) == (1, 0)
    client.ack(message)
    assert world.depth("/queue/in") == 0


@pytest.mark.parametrize("verb", ["COMMIT", "ABORT"])
def test_ending_an_unknown_transaction_is_an_error(world: World, verb: str) -> None:
    client = world.connect()
    client.send(verb, {"transaction": "t"})
    assert "no transaction t" in client.error()["message"]


def test_beginning_a_running_transaction_is_an_error(world: World) -> None:
    client = world.connect()
    client.send("BEGIN", {"transaction": "t"})
    client.send("BEGIN", {"transaction": "t"})
    assert "running already" in client.error()["message"]


def test_a_lost_connection_aborts_its_transactions(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/in", "x")
    client.subscribe("/queue/in", ack="client")
    client.ack(client.take(), transaction="t")
    client.publish("/queue/out", "y", transaction="t")
    client.lose()
    other.subscribe("/queue/in,/queue/out")
    assert other.bodies() == ["x"]


def test_what_was_acked_in_an_open_transaction_stays_with_it_over_unsubscribe(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a", "1", "2")
    client.subscribe("/queue/a", ack="client-individual")
    one, _ = client.take_all()
    client.ack(one, transaction="t")
    client.send("UNSUBSCRIBE", {"id": "s"})
    other.subscribe("/queue/a")
    assert other.bodies() == ["2"]
    client.send("COMMIT", {"transaction": "t"})
    assert world.depth("/queue/a") == 0


def test_after_unsubscribe_an_abort_gives_the_messages_back(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a", "1")
    client.subscribe("/queue/a", ack="client-individual")
    client.ack(client.take(), transaction="t")
    client.send("UNSUBSCRIBE", {"id": "s"})
    other.subscribe("/queue/a")
    client.send("ABORT", {"transaction": "t"})
    assert other.bodies() == ["1"]


def small(**options: object) -> World:
    return World(queues=(QueueSettings.model_validate({"id": "small", **options}),))


def test_a_commit_waits_for_room_as_a_whole() -> None:
    world = small(quota_messages=2)
    client, other = world.connect(), world.connect()
    other.publish("/queue/small", "0")
    for body in ("1", "2"):
        client.publish("/queue/small", body, transaction="t")
    client.publish("/queue/else", "3", transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.receipts() == []
    assert (world.depth("/queue/small"), world.depth("/queue/else")) == (1, 0)
    other.subscribe("/queue/small", ack="client")
    other.ack(other.take())
    assert client.receipts() == ["r"]
    assert (world.depth("/queue/small"), world.depth("/queue/else")) == (2, 1)


def test_a_transaction_that_can_never_fit_is_refused() -> None:
    world = small(quota_messages=1)
    client = world.connect()
    for body in ("1", "2"):
        client.publish("/queue/small", body, transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.error()["receipt-id"] == "r"
    assert world.depth("/queue/small") == 0


def test_a_connection_lost_while_its_commit_waits_gives_its_acks_back() -> None:
    world = small(quota_messages=1)
    client, other = world.connect(), world.connect()
    client.publish("/queue/in", "x")
    client.publish("/queue/small", "full")
    client.subscribe("/queue/in", ack="client")
    client.ack(client.take(), transaction="t")
    client.publish("/queue/small", "more", transaction="t")
    client.send("COMMIT", {"transaction": "t"})
    assert not client.engine.reading
    client.lose()
    other.subscribe("/queue/in,/queue/small")
    assert sorted(other.bodies()) == ["full", "x"]


def test_a_waiting_send_that_is_refused_later_ends_its_own_connection_only() -> None:
    world = small(quota_messages=1)
    client, other, third = world.connect(), world.connect(), world.connect()
    other.subscribe("/topic/a", id="d", persistent="true", credit="0,0")
    client.publish("/queue/small", "1")
    client.publish("/queue/small,/dsub/d", "2", receipt="r")
    assert not client.engine.reading
    other.send("UNSUBSCRIBE", {"id": "d", "persistent": "true"})
    third.subscribe("/queue/small")
    assert third.bodies() == ["1"]
    assert not third.engine.is_closed
    assert "durable subscription d" in client.error()["message"]


@pytest.mark.parametrize("verb", ["BEGIN", "SEND"])
def test_a_connection_has_so_many_open_transactions_and_no_more(verb: str) -> None:
    world = World(stomp=StompSettings(transactions_max=2))
    client = world.connect()
    client.send("BEGIN", {"transaction": "1"})
    client.publish("/queue/a", "x", transaction="2")
    client.send("COMMIT", {"transaction": "1"})
    client.send("BEGIN", {"transaction": "3"})
    assert not client.engine.is_closed
    client.send(verb, {"destination": "/queue/a", "transaction": "4"})
    assert "transactions_max" in client.error()["message"]


def test_limits_of_a_transaction_are_named() -> None:
    world = World(limits={"tx_operations_max": 2})
    client = world.connect()
    client.publish("/queue/a", "1", "2", "3", transaction="t")
    assert "tx_operations_max" in client.error()["message"]


@pytest.mark.parametrize("portion", [1, 1000])
def test_a_commit_that_is_refused_names_its_receipt_and_the_cause(portion: int) -> None:
    full = QueueSettings(id="a", quota_messages=3, full_policy="reject")
    world = World(queues=[full], limits={"work_portion": portion})
    world.does_jobs = True
    client = world.connect()
    for number in range(5):
        client.publish("/queue/a", str(number), transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "c"})
    error = client.error()
    assert (error["receipt-id"], error["covey-code"]) == ("c", "full")
    assert world.depth("/queue/a") == 0


def test_frames_behind_a_long_commit_wait_for_it_and_other_clients_do_not() -> None:
    world = World(limits={"work_portion": 2})
    client, other = world.connect(), world.connect()
    for number in range(9):
        client.publish("/queue/a", str(number), transaction="t")
    said = "COMMIT\ntransaction:t\n\n\0SEND\ndestination:/queue/a\n\n9\0"
    client.engine.receive(said.encode(), world.now)
    assert world.broker.jobs.is_any
    assert not client.engine.reading
    other.engine.receive(b"SEND\ndestination:/queue/b\n\n\0", world.now)
    assert (world.depth("/queue/a"), world.depth("/queue/b")) == (0, 1)
    world.does_jobs = True
    world.settle_down()
    client.subscribe("/queue/a")
    assert [client.take().body for _ in range(10)] == [b"%d" % number for number in range(10)]
