"""ACKs that come too late: the deadline of a delivery, as a STOMP client meets it."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.protocols.stomp import holding
from tests.protocols.stomp.support import Client, World


def world_of(**settings: object) -> World:
    return World(queues=[QueueSettings.model_validate({"delivery_deadline_s": 10, **settings})])


def hung_client(world: World, version: str = "1.2", mode: str = "client-individual") -> Client:
    hung = world.connect(version)
    hung.subscribe("/queue/q", ack=mode, credit="2,0")
    hung.publish("/queue/q", "1", JMSXGroupID="g", message_id="order-1")
    hung.publish("/queue/q", "2", JMSXGroupID="g")
    world.wait(10)
    return hung


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("mode", ["client-individual", "client"])
def test_a_late_ack_settles_nothing_and_ends_no_connection(version: str, mode: str) -> None:
    world = world_of()
    hung = hung_client(world, version, mode)
    second = hung.take_all()[1]
    assert world.depth("/queue/q") == 2
    other = world.connect()
    other.subscribe("/queue/q", ack="client-individual")
    theirs = other.take_all()
    assert [message.body for message in theirs] == [b"1", b"2"]
    hung.ack(second, receipt="late")
    receipt = hung.take("RECEIPT")
    assert (receipt["receipt-id"], receipt["covey-late"]) == ("late", "true")
    assert world.depth("/queue/q") == 2
    other.ack(theirs[0], receipt="in time")
    assert "covey-late" not in other.take("RECEIPT").headers
    assert world.depth("/queue/q") == 1
    assert world.queue("/queue/q").counters.late == (2 if mode == "client" else 1)


def test_a_late_ack_frees_its_credit_and_brings_the_client_back() -> None:
    world = world_of()
    hung = hung_client(world)
    first, second = hung.take_all()
    hung.ack(first)
    again = hung.take()
    assert (again.body, again.headers["ack"] != first.headers["ack"]) == (b"1", True)
    assert again["message-id"] == first["message-id"]
    hung.ack(second)  # late as well: it must not settle the new delivery of 2
    assert world.depth("/queue/q") == 2
    assert hung.take().body == b"2"
    hung.ack(again, receipt="r")
    assert "covey-late" not in hung.take("RECEIPT").headers
    assert world.depth("/queue/q") == 1


def test_a_late_nack_and_a_late_ack_in_a_transaction_settle_nothing() -> None:
    world = world_of()
    hung = hung_client(world)
    first, second = hung.take_all()
    hung.ack(first, "NACK", receipt="nack")
    assert hung.take("RECEIPT")["covey-late"] == "true"
    hung.inbox.clear()
    hung.send("BEGIN", {"transaction": "t"})
    hung.ack(second, transaction="t", receipt="ack")
    hung.inbox.clear()
    hung.send("COMMIT", {"transaction": "t"})
    assert hung.take("RECEIPT")["covey-late"] == "true"
    assert world.depth("/queue/q") == 2


def test_a_late_ack_that_is_undone_may_be_said_again_and_raises_credit_once() -> None:
    world = world_of()
    hung = hung_client(world)
    first, _ = hung.take_all()
    holder = world.queue("/queue/q").state.consumers[1]
    for _ in range(2):
        hung.send("BEGIN", {"transaction": "t"})
        hung.ack(first, transaction="t")
        hung.send("ABORT", {"transaction": "t"})
        hung.inbox.clear()
        assert len(holder.unsettled) == 1  # it is back, and gets the first message again
    hung.ack(first, receipt="again")
    assert hung.take("RECEIPT")["covey-late"] == "true"
    assert (len(holder.unsettled), world.depth("/queue/q")) == (1, 2)


def test_what_a_transaction_has_settled_does_not_run_out() -> None:
    world = world_of()
    client = world.connect()
    client.publish("/queue/q", "1")
    client.subscribe("/queue/q", ack="client-individual")
    client.send("BEGIN", {"transaction": "t"})
    client.ack(client.take(), transaction="t")
    world.wait(60)
    client.send("COMMIT", {"transaction": "t", "receipt": "done"})
    assert client.receipts() == ["done"]
    assert world.depth("/queue/q") == 0


def test_a_client_may_ask_for_another_deadline_within_the_maximum() -> None:
    world = world_of(delivery_deadline_max_s=30)
    patient = world.connect()
    patient.publish("/queue/q", "1")
    patient.subscribe("/queue/q", ack="client", covey_deadline="29.5")
    world.wait(29)
    patient.ack(patient.take(), receipt="r")
    assert "covey-late" not in patient.take("RECEIPT").headers
    greedy = world.connect()
    greedy.subscribe("/queue/q", ack="client", covey_deadline="31")
    assert "delivery_deadline_max_s" in greedy.error()["message"]
    odd = world.connect()
    odd.subscribe("/queue/q", ack="client", covey_deadline="soon")
    assert "covey-deadline:soon is not a number of seconds" in odd.error()["message"]


def test_the_connection_of_a_hung_client_is_ended_if_that_is_wanted() -> None:
    world = world_of(deadline_action="disconnect")
    hung = hung_client(world)
    hung.take()
    hung.take()
    assert "held for longer than 10 s" in hung.error()["message"]
    other = world.connect()
    other.subscribe("/queue/q", ack="client")
    assert other.bodies() == ["1", "2"]


def test_of_very_many_late_messages_the_oldest_are_forgotten_and_still_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holding, "LATE_MAX", 2)
    world = world_of()
    hung = world.connect()
    hung.subscribe("/queue/q", ack="client-individual", credit="9,0")
    hung.publish("/queue/q", *"12345")
    world.wait(10)
    messages = hung.take_all()
    assert len(hung.session.holding.messages) == 2
    hung.ack(messages[0], receipt="r")
    assert hung.take("RECEIPT")["covey-late"] == "true"
    hung.send("ACK", {"id": "99"})
    assert "names no message" in hung.error()["message"]
