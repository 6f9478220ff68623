"""Transactions: sends and settlements that happen together or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Described, Message, Sender, Terminus, symbol, ulong

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from tests.core.support import depth
from tests.protocols.amqp.peer import Peer, make_broker

DECLARED = 0x33
TRANSACTIONAL = 0x34
ACCEPTED, RELEASED, MODIFIED = ulong(0x24), ulong(0x26), ulong(0x27)


class Control:
    """A client's control link."""

    def __init__(self, peer: Peer, name: str = "control") -> None:
        self.peer = peer
        self.link = peer.session.sender(name)
        self.link.target.type = Terminus.COORDINATOR
        self.link.open()
        peer.pump()

    def command(self, descriptor: Any, fields: list[Any]) -> Delivery:
        """Send a command to the coordinator."""
        return self.peer.send(self.link, Message(body=Described(descriptor, fields)))

    def declare(self) -> bytes:
        """Start a transaction."""
        delivery = self.command(ulong(0x31), [None])
        assert delivery.remote_state == DECLARED
        data: Any = delivery.remote.data
        id = bytes(data[0])
        delivery.settle()
        return id

    def discharge(self, id: bytes, *, fail: bool = False) -> Delivery:
        """End a transaction."""
        return self.command(ulong(0x32), [id, fail])


def send_in(peer: Peer, link: Any, id: bytes, message: Message) -> Delivery:
    delivery: Delivery = link.delivery(link.delivery_tag())
    link.stream(message.encode())
    state: Any = [id]
    delivery.local.data = state
    delivery.update(TRANSACTIONAL)
    link.advance()
    peer.pump()
    return delivery


def settle_in(
    peer: Peer, delivery: Delivery, id: bytes, outcome: Described, *, settled: bool = True
) -> None:
    state: Any = [id, outcome]
    delivery.local.data = state
    delivery.update(TRANSACTIONAL)
    if settled:
        delivery.settle()
    peer.pump()


def count(broker: Broker, name: str = "q") -> int:
    queue = broker.host.queues.get(name)
    return 0 if queue is None else depth(queue)


@pytest.fixture(params=["at once", "in portions"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Whether it is long or short, a transaction does the same."""
    broker = make_broker()
    if request.param == "in portions":
        broker.jobs.portion = 1
    return broker


def test_sends_of_a_transaction_appear_with_its_commit(broker: Broker) -> None:
    peer = Peer(broker)
    control = Control(peer)
    sender = peer.sender("q")
    id = control.declare()
    delivery = send_in(peer, sender, id, Message(body="1"))
    assert (delivery.remote_state, delivery.settled) == (TRANSACTIONAL, True)
    send_in(peer, sender, id, Message(body="2"))
    assert count(broker) == 0
    assert control.discharge(id).remote_state == Delivery.ACCEPTED
    peer.receiver("q")
    assert peer.bodies() == ["1", "2"]


def test_a_rolled_back_send_never_happened(broker: Broker) -> None:
    peer = Peer(broker)
    control = Control(peer)
    id = control.declare()
    send_in(peer, peer.sender("q"), id, Message(body="1"))
    assert control.discharge(id, fail=True).remote_state == Delivery.ACCEPTED
    assert count(broker) == 0


def test_commands_may_be_named_in_words(broker: Broker) -> None:
    peer = Peer(broker)
    control = Control(peer)
    delivery = control.command(symbol("amqp:declare:list"), [])
    data: Any = delivery.remote.data
    id = bytes(data[0])
    answer = control.command(symbol("amqp:discharge:list"), [id, False])
    assert answer.remote_state == Delivery.ACCEPTED


def test_settlements_of_a_transaction_hold_with_its_commit(broker: Broker) -> None:
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q")
    control = Control(peer)
    id = control.declare()
    settle_in(peer, peer.messages[0][0], id, Described(ACCEPTED, []))
    assert count(broker) == 1
    control.discharge(id)
    assert count(broker) == 0


def test_rolled_back_settlements_come_back_in_order(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    for number in range(4):
        peer.send(sender, Message(body=number, group_id="g"))
    peer.receiver("q", credit=10)
    control = Control(peer)
    id = control.declare()
    for delivery, _ in peer.messages[:3]:
        settle_in(peer, delivery, id, Described(ACCEPTED, []))
    control.discharge(id, fail=True)
    assert peer.bodies() == [0, 1, 2, 3, 0, 1, 2]
    assert [message.delivery_count for _, message in peer.messages[4:]] == [1, 1, 1]


def test_what_the_client_has_not_settled_stays_with_it_after_a_rollback(broker: Broker) -> None:
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q")
    control = Control(peer)
    delivery = peer.messages[0][0]
    id = control.declare()
    settle_in(peer, delivery, id, Described(ACCEPTED, []), settled=False)
    control.discharge(id, fail=True)
    assert peer.bodies() == ["1"]
    peer.settle(delivery, Delivery.RELEASED)
    assert peer.bodies() == ["1", "1"]


def test_what_the_client_has_not_settled_is_settled_by_the_commit(broker: Broker) -> None:
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q")
    control = Control(peer)
    delivery = peer.messages[0][0]
    id = control.declare()
    settle_in(peer, delivery, id, Described(ACCEPTED, []), settled=False)
    assert not delivery.settled
    control.discharge(id)
    assert delivery.settled
    assert count(broker) == 0


@pytest.mark.parametrize("outcome", [RELEASED, MODIFIED])
def test_a_commit_settles_with_the_outcome_that_was_asked_for(broker: Broker, outcome: Any) -> None:
    peer = Peer(broker)
    peer.send(peer.sender("q"), "1")
    peer.receiver("q", credit=1)
    control = Control(peer)
    delivery = peer.messages[0][0]
    id = control.declare()
    settle_in(peer, delivery, id, Described(outcome, []), settled=False)
    control.discharge(id)
    assert (delivery.settled, delivery.remote_state) == (True, outcome)


def test_other_outcomes_hold_in_a_transaction_too(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, "1")
    peer.send(sender, "2")
    peer.receiver("q")
    control = Control(peer)
    id = control.declare()
    settle_in(peer, peer.messages[0][0], id, Described(RELEASED, []))
    settle_in(peer, peer.messages[1][0], id, Described(MODIFIED, [True]))
    control.discharge(id)
    assert peer.bodies() == ["1", "2", "1", "2"]
    assert [message.delivery_count for _, message in peer.messages] == [0, 0, 0, 1]


def test_a_control_link_that_goes_rolls_back(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    control = Control(peer)
    send_in(peer, sender, control.declare(), Message(body="1"))
    control.link.close()
    peer.pump()
    assert count(broker) == 0
    assert not peer.engine.coordinator.open
    assert peer.engine.session is not None
    assert not peer.engine.session.transactions


def test_a_lost_connection_rolls_back(broker: Broker) -> None:
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, "1")
    peer.receiver("q")
    id = Control(peer).declare()
    settle_in(peer, peer.messages[0][0], id, Described(ACCEPTED, []))
    send_in(peer, sender, id, Message(body="2"))
    peer.lose()
    again = Peer(broker)
    again.receiver("q")
    assert again.bodies() == ["1"]


def test_an_unknown_transaction_is_refused(broker: Broker) -> None:
    peer = Peer(broker)
    control = Control(peer)
    delivery = control.discharge(b"nosuch")
    assert delivery.remote_state == Delivery.REJECTED
    assert str(delivery.remote.condition).startswith("Condition('amqp:transaction:unknown-id'")
    sent = send_in(peer, peer.sender("q"), b"nosuch", Message(body="1"))
    assert sent.remote_state == Delivery.REJECTED
    peer.receiver("q2")
    peer.send(peer.sender("q2"), "1")
    settle_in(peer, peer.messages[0][0], b"nosuch", Described(ACCEPTED, []))
    assert peer.conditions == ["amqp:transaction:unknown-id"]


def test_a_commit_that_is_refused_says_it_rolled_back() -> None:
    broker = make_broker(queue=({"id": "**", "quota_messages": 1, "full_policy": "reject"},))
    peer = Peer(broker)
    sender = peer.sender("q")
    peer.send(sender, "1")
    peer.receiver("q")
    control = Control(peer)
    id = control.declare()
    settle_in(peer, peer.messages[0][0], id, Described(ACCEPTED, []))
    send_in(peer, sender, id, Message(body="2"))
    delivery = control.discharge(id)
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition is not None
    assert delivery.remote.condition.name == "amqp:transaction:rollback"
    assert peer.bodies() == ["1", "1"]


@pytest.mark.parametrize(
    "body", ["text", {}, None, Described(ulong(0x99), []), Described(ulong(0x32), [])]
)
def test_nonsense_on_the_control_link_is_rejected(broker: Broker, body: Any) -> None:
    peer = Peer(broker)
    delivery = peer.send(Control(peer).link, Message(body=body))
    assert delivery.remote_state == Delivery.REJECTED


def test_open_transactions_are_counted(broker: Broker) -> None:
    peer = Peer(broker)
    control = Control(peer)
    for _ in range(AmqpSettings().transactions_max):
        control.declare()
    delivery = control.command(ulong(0x31), [None])
    assert delivery.remote_state == Delivery.REJECTED


# While a message of the same connection waits for room.


def block() -> tuple[Peer, Sender]:
    """Return a client with three messages for a queue that has room for one."""
    peer = Peer(make_broker(queue=({"id": "q", "quota_messages": 1},)))
    sender = peer.sender("q")
    states = [peer.send(sender, str(number)).remote_state for number in range(3)]
    assert states == [Delivery.ACCEPTED, 0, 0]
    return peer, sender


def test_a_transaction_can_make_the_room_that_its_connection_waits_for() -> None:
    blocked, _ = block()
    control = Control(blocked)
    blocked.receiver("q")
    assert blocked.bodies() == ["0"]
    id = control.declare()
    settle_in(blocked, blocked.messages[0][0], id, Described(ACCEPTED, []))
    assert control.discharge(id).remote_state == Delivery.ACCEPTED
    assert blocked.bodies() == ["0", "1", "2"]  # what it holds itself keeps nobody out


def test_a_commit_holds_what_was_sent_while_its_connection_waits() -> None:
    blocked, _ = block()
    control = Control(blocked)
    id = control.declare()
    delivery = send_in(blocked, blocked.sender("other"), id, Message(body="1"))
    assert delivery.remote_state == TRANSACTIONAL
    assert control.discharge(id).remote_state == Delivery.ACCEPTED
    assert count(blocked.broker, "other") == 1


def test_a_send_in_a_transaction_waits_for_memory() -> None:
    broker = make_broker()
    peer = Peer(broker)
    control, sender = Control(peer), peer.sender("q")
    broker.commits.overload.weigh(2, 1)
    peer.send(sender, "1")  # the one that finds no memory is taken
    id = control.declare()
    sent = send_in(peer, peer.sender("other"), id, Message(body="2"))
    done = control.discharge(id)
    assert (sent.remote_state, done.remote_state) == (0, 0)
    broker.commits.overload.weigh(1, 1)
    peer.pump()
    assert (sent.remote_state, done.remote_state) == (TRANSACTIONAL, Delivery.ACCEPTED)
    assert count(broker, "other") == 1


def test_a_commit_waits_for_a_send_that_waits() -> None:
    blocked, sender = block()
    control = Control(blocked)
    id = control.declare()
    send_in(blocked, sender, id, Message(body="last"))  # behind others on its link
    later = control.command(ulong(0x31), [None])
    done = control.discharge(id)
    assert (later.remote_state, done.remote_state) == (0, 0)
    reader = Peer(blocked.broker, container="reader")
    reader.receiver("q")
    for _ in range(4):
        reader.settle(reader.messages[-1][0])
        blocked.pump()
        reader.pump()
    assert reader.bodies() == ["0", "1", "2", "last"]
    assert (later.remote_state, done.remote_state) == (DECLARED, Delivery.ACCEPTED)
