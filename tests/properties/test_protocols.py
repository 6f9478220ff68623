"""STOMP and AMQP beside each other in one broker: what passes from one to the other and back.

The two clients are joined to the broker by bytes alone. A message that goes through the other
protocol and comes back says the same; groups and durable subscriptions are shared.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Message, Sender, symbol, ulong

from covey.protocols.stomp.frame import encode
from covey.protocols.stomp.mapping import CONSUMED, NEUTRAL_FIELDS
from covey.protocols.stomp.message import NOT_KEPT
from covey.protocols.stomp.versions import Version
from tests.protocols.amqp.peer import Peer
from tests.protocols.stomp.support import Client, World

EXAMPLES = 60

TAKEN = {*NOT_KEPT, *CONSUMED, *NEUTRAL_FIELDS, "amqp-body", "amqp-message-id"}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = TEXTS.filter(lambda name: bool(name) and name not in TAKEN)

IDS = st.one_of(
    st.none(),
    TEXTS.filter(bool),
    st.integers(0, 2**64 - 1).map(ulong),
    st.uuids(),
    st.binary(min_size=1, max_size=8),
)
NUMBERS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=False, width=32))
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
BODIES = st.one_of(
    PLAIN.filter(lambda body: body is not None),  # proton leaves such a body out
    st.binary(max_size=40),
    st.lists(PLAIN, max_size=4),
    st.dictionaries(TEXTS, PLAIN, max_size=4),
)

# One broker for all examples of a test: each takes what it has sent.
quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Both:
    """A broker, a STOMP client and an AMQP client."""

    def __init__(self) -> None:
        self.world = World()
        self.stomp: Client = self.world.connect()
        self.amqp = Peer(self.world.broker, login=("admin", "password"), now=self.world.now)
        self.there = self.amqp.sender("there")
        self.back = self.amqp.sender("back")

    def quiet(self) -> None:
        """Let everybody work until nothing happens any more."""
        for _ in range(3):
            self.amqp.pump()
            self.world.settle_down()

    def take_amqp(self) -> Message:
        """Accept the one message that came to the AMQP client."""
        ((delivery, message),) = self.amqp.messages
        self.amqp.messages.clear()
        self.amqp.settle(delivery)
        return message


@pytest.fixture
def both() -> Both:
    return Both()


def sent_on(link: Sender, payload: bytes) -> None:
    """Send a message on exactly as it came."""
    link.delivery("tag")
    link.send(payload)
    link.advance()


@quick
@given(
    own=st.dictionaries(NAMES, TEXTS, max_size=4),
    fields=st.dictionaries(st.sampled_from([*NEUTRAL_FIELDS]), TEXTS.filter(bool)),
    body=st.one_of(st.binary(max_size=40), TEXTS.map(str.encode)),
    group=TEXTS,
    priority=st.integers(0, 9),
    is_persistent=st.booleans(),
)
def test_stomp_through_amqp_to_stomp(
    both: Both,
    own: dict[str, str],
    fields: dict[str, str],
    body: bytes,
    group: str,
    priority: int,
    is_persistent: bool,
) -> None:
    fields.pop("reply-to", None)  # an address is read, and refused if it is none
    fields = {name: value if name == "type" else _ascii(value) for name, value in fields.items()}
    if not both.amqp.raw:
        both.amqp.receiver("there")
        both.stomp.subscribe("/queue/back")
    marks = {"priority": str(priority), "persistent": str(is_persistent).lower()}
    headers = {"destination": "/queue/there", "JMSXGroupID": group, **marks, **fields, **own}
    both.stomp.feed(encode("SEND", list(headers.items()), body, Version.V1_2))
    both.quiet()
    message = both.take_amqp()
    assert (message.priority, message.durable) == (priority, is_persistent)
    assert (message.group_id or "") == group
    assert message.user_id == b"admin"
    sent_on(both.back, both.amqp.raw[-1])
    both.quiet()
    frame = both.stomp.take()
    assert frame.body == body
    assert frame.headers.get("JMSXGroupID", "") == group
    assert frame.headers.get("priority", "4") == str(priority)
    assert {name: frame.headers[name] for name in own} == own
    assert {name: frame.headers[name] for name in fields} == fields
    assert frame["user-id"] == frame["JMSXUserID"] == "admin"


@quick
@given(
    body=BODIES,
    id=IDS,
    correlation=IDS,
    subject=TEXTS,
    group=TEXTS,
    sequence=st.integers(1, 2**32 - 1),
    own=st.dictionaries(NAMES, st.one_of(TEXTS, st.booleans(), NUMBERS), max_size=4),
)
def test_amqp_through_stomp_to_amqp(
    both: Both,
    body: Any,
    id: Any,
    correlation: Any,
    subject: str,
    group: str,
    sequence: int,
    own: dict[str, Any],
) -> None:
    if not both.amqp.raw:
        both.stomp.subscribe("/queue/there")
        both.amqp.receiver("back")
    message = Message(body=body, id=id, correlation_id=correlation, properties=own or None)
    message.inferred = isinstance(body, bytes)
    if subject:
        message.subject = subject
    if group:
        message.group_id, message.group_sequence = group, sequence
    both.amqp.send(both.there, message)
    both.quiet()
    frame = both.stomp.take()
    hop = {"subscription", "ack", "message-id", "content-length", "destination"}
    headers = {name: value for name, value in frame.headers.items() if name not in hop}
    headers["destination"] = "/queue/back"
    both.stomp.feed(encode("SEND", list(headers.items()), frame.body, Version.V1_2))
    both.quiet()
    got = both.take_amqp()
    assert _kept(got.body) == _kept(body)
    assert got.inferred == message.inferred
    if id is not None:
        assert _kept(got.id) == _kept(id)
    assert _kept(got.correlation_id) == _kept(correlation)
    assert (got.subject or "") == subject
    assert (got.group_id or "") == group
    if group:
        assert got.group_sequence == sequence
    assert (got.properties or {}) == {name: _text(value) for name, value in own.items()}


def _ascii(text: str) -> str:
    """Make a text that an AMQP symbol can hold."""
    return text.encode("ascii", "backslashreplace").decode()


def _kept(value: Any) -> Any:
    """Copy a value out of proton's memory."""
    return bytes(value) if isinstance(value, memoryview) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Groups.

SENT = [(number, f"g{number % 3}") for number in range(18)]


def in_order(got: list[tuple[int, str]]) -> bool:
    """Say whether the messages of each group came in the order they were sent."""
    groups = {group for _, group in got}
    return all(
        [number for number, each in got if each == group]
        == sorted(number for number, each in got if each == group)
        for group in groups
    )


def take_part(peer: Peer) -> list[tuple[int, str]]:
    """Accept what came."""
    found = [(int(str(message.body)), message.group_id or "") for _, message in peer.messages]
    for delivery, _ in peer.messages:
        peer.settle(delivery)
    peer.messages.clear()
    return found


@pytest.mark.parametrize("strategy", ["shared", "simple", "consistent-hash"])
def test_stomp_feeds_groups_that_amqp_consumers_share(both: Both, strategy: str) -> None:
    declare(both, strategy)
    peers = [Peer(both.world.broker, container=f"c{n}", now=both.world.now) for n in range(2)]
    for peer in peers:
        peer.receiver("work", credit=1000)
    for number, group in SENT:
        both.stomp.publish("/queue/work", str(number), JMSXGroupID=group)
    shares: list[list[tuple[int, str]]] = [[], []]
    for _ in range(len(SENT)):
        for peer, share in zip(peers, shares, strict=True):
            peer.pump()
            share += take_part(peer)
        both.quiet()
    assert sorted(shares[0] + shares[1]) == SENT
    assert all(in_order(share) for share in shares)
    if strategy != "shared":
        assert not {group for _, group in shares[0]} & {group for _, group in shares[1]}


def declare(both: Both, strategy: str) -> None:
    """Make the queue `work` with a group strategy."""
    admin = both.amqp.engine.nodes.admin
    arguments = {"qpid.group_header_key": "JMSXGroupID", "covey.groups.strategy": strategy}
    admin.declare("work", arguments, both.world.now)


def test_amqp_feeds_groups_that_stomp_and_amqp_consumers_share(both: Both) -> None:
    declare(both, "simple")
    both.stomp.subscribe("/queue/work", ack="client-individual")
    other = Peer(both.world.broker, container="other", now=both.world.now)
    other.receiver("work", credit=1000)
    sender = both.amqp.sender("work")
    for number, group in SENT:
        both.amqp.send(sender, Message(body=str(number), group_id=group))
    by_amqp: list[tuple[int, str]] = []
    by_stomp: list[tuple[int, str]] = []
    for _ in range(len(SENT)):
        both.quiet()
        other.pump()
        by_amqp += take_part(other)
        for frame in both.stomp.take_all():
            by_stomp.append((int(frame.body), frame["JMSXGroupID"]))
            both.stomp.ack(frame)
    assert sorted(by_amqp + by_stomp) == SENT
    assert by_amqp
    assert by_stomp
    assert in_order(by_amqp)
    assert in_order(by_stomp)
    assert not {group for _, group in by_amqp} & {group for _, group in by_stomp}


# Durable subscriptions.


def test_a_durable_subscription_of_stomp_is_read_by_amqp(both: Both) -> None:
    both.stomp.subscribe("/topic/news", id="mine", persistent="true")
    both.stomp.send("UNSUBSCRIBE", {"id": "mine"})
    both.amqp.send(both.amqp.sender("topic://news"), "missed")
    (name,) = both.world.broker.host.durables
    both.amqp.receiver(f"/dsub/{name}")
    assert both.amqp.bodies() == ["missed"]


def test_a_durable_subscription_of_amqp_is_read_by_stomp(both: Both) -> None:
    link = both.amqp.receiver("topic://news", name="mine", durable=True)
    link.detach()
    both.quiet()
    both.stomp.publish("/topic/news", "missed")
    (name,) = both.world.broker.host.durables
    both.stomp.subscribe(f"/dsub/{name}")
    assert both.stomp.bodies() == ["missed"]


# What the broker itself says.


def test_why_a_message_died_is_told_in_both_protocols(both: Both) -> None:
    both.amqp.engine.nodes.admin.declare("work", {"covey.dlq": "dead"}, both.world.now)
    both.stomp.subscribe("/queue/work", ack="client-individual")
    both.stomp.publish("/queue/work", "bad")
    both.amqp.send(both.amqp.sender("work"), "worse")
    both.quiet()
    for frame in both.stomp.take_all():
        both.stomp.ack(frame, "NACK", requeue="false")
    both.amqp.receiver("dead", credit=2)
    both.quiet()
    reason = symbol("x-opt-dead-letter-reason")
    said = [
        message.annotations and message.annotations[reason] for _, message in both.amqp.messages
    ]
    assert said == ["rejected", "rejected"]
    for delivery, _ in both.amqp.messages:
        both.amqp.settle(delivery, delivery.RELEASED)
    both.amqp.connection.close()
    both.amqp.pump()
    both.stomp.subscribe("/queue/dead", id="d")
    both.quiet()
    assert [frame["covey-dead-reason"] for frame in both.stomp.take_all()] == ["rejected"] * 2


def test_ids_keep_their_type_on_the_way(both: Both) -> None:
    both.stomp.subscribe("/queue/there")
    both.amqp.send(both.there, Message(id=UUID(int=5)))
    both.quiet()
    assert both.stomp.take()["amqp-message-id"] == f"uuid:{UUID(int=5)}"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_message_without_an_id_has_one_of_its_own_for_stomp_readers(
    both: Both, version: str
) -> None:
    reader = both.world.connect(version)
    reader.send("SUBSCRIBE", {"id": "s", "destination": "/queue/there", "ack": "client-individual"})
    for body in (b"a", b"b", "c"):  # the first two have one form, and share a translation
        sent_on(both.there, Message(body=body, group_id="g").encode())
    both.quiet()
    first, second, third = reader.take_all()
    ids = [frame["message-id"] for frame in (first, second, third)]
    assert len(set(ids)) == 3
    reader.ack(second, "NACK")
    again = reader.take()
    assert (again.body, again["message-id"], again["redelivered"]) == (b"b", ids[1], "true")


def test_topics_give_such_messages_ids_too_also_after_a_new_subscription(both: Both) -> None:
    link = both.amqp.sender("topic://news")
    ids = []
    for _ in range(2):
        for name in ("one", "two"):
            both.stomp.subscribe("/topic/news", id=name)
        for body in (b"a", b"b"):
            sent_on(link, Message(body=body).encode())
        both.quiet()
        ids += [frame["message-id"] for frame in both.stomp.take_all()]
        for name in ("one", "two"):
            both.stomp.send("UNSUBSCRIBE", {"id": name})
    assert len(set(ids)) == len(ids) == 8
