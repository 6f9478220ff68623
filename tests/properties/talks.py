"""Talks: valid conversations of both protocols, recorded by leading them once.

Each is led on a stage of its own, so that what a client must repeat (the id of a message) is what
it was told. Those of AMQP come from two hands: frames written one by one, and proton's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from proton import Delivery, Described, Message, symbol, ulong

from covey.protocols.amqp.codec.encoder import FALSE, NULL, TRUE, binary, compound, section, uint
from covey.protocols.stomp.frame import encode
from covey.protocols.stomp.versions import Version
from tests.e2e.amqp_bytes import (
    AMQP_HEADER,
    CLOSE,
    DATA,
    DETACH,
    DISPOSITION,
    END,
    SASL_HEADER,
    TRANSFER,
    accepting,
    attaching,
    beginning,
    granting,
    opening,
    sasl_init,
    says,
    transferring,
)
from tests.properties.stage import AMQP, NOW_S, Stage, Talk, make_broker
from tests.protocols.amqp.links.test_transactions import Control, send_in, settle_in
from tests.protocols.amqp.peer import Peer

LOGIN: Final = {"login": "admin", "passcode": "password", "host": "localhost"}
GROUP: Final = "message_group"
ACKS: Final = 400  # of the large row
RELEASED, REJECTED, MODIFIED = 0x26, 0x25, 0x27


class Leader:
    """Leads a talk, and writes down what is said."""

    def __init__(self, *clients: str) -> None:
        self.clients = clients
        self.stage = Stage(clients)
        self.steps: list[tuple[int, bytes]] = []

    def say(self, client: int, *frames: bytes) -> None:
        """Say frames as one step."""
        said = b"".join(frames)
        self.steps.append((client, said))
        self.stage.say(client, said)

    def told(self, client: int, header: str) -> list[str]:
        """Return what a STOMP client was told in a header, each time."""
        pattern = rb"\n" + header.encode() + rb":([^\n]*)"
        return [value.decode() for value in re.findall(pattern, self.stage.heard(client))]

    def talk(self, name: str) -> Talk:
        """Return what was said."""
        return Talk(name, self.clients, tuple(self.steps))


def frame(command: str, *bodies: bytes, **headers: str) -> bytes:
    """Write a STOMP frame; underscores stand for hyphens, but in the name of the group's header."""
    named = [
        (name if name == GROUP else name.replace("_", "-"), value)
        for name, value in headers.items()
    ]
    return encode(command, named, b"".join(bodies), Version.V1_2)


def connect(version: str = "1.2") -> bytes:
    """Write a login."""
    offered = {"accept_version": version} if version != "1.0" else {}
    return frame("CONNECT", **offered, **LOGIN)


def subscribe(name: str, destination: str, ack: str = "auto", **headers: str) -> bytes:
    """Write a SUBSCRIBE."""
    return frame("SUBSCRIBE", id=name, destination=destination, ack=ack, **headers)


def send(destination: str, body: bytes, **headers: str) -> bytes:
    """Write a SEND."""
    return frame("SEND", body, destination=destination, **headers)


# STOMP.


def stomp_version(version: str, ack: str) -> Talk:
    """Lead a consumer of its own messages: receipts, binary bodies, ACK and NACK."""
    leader = Leader("stomp")
    leader.say(0, connect(version), b"\n\n", subscribe("s", "/queue/a", ack, receipt="sub"))
    odd = {"colour": "a\nb:c\\d", "content_type": "text/plain"} if version != "1.0" else {}
    leader.say(
        0,
        send("/queue/a", b"one", receipt="r1", **odd),
        send("/queue/a", b"t\0w\no", persistent="true", receipt="r2"),
        b"SEND\r\ndestination:/queue/a\r\n\r\nthree\0\r\n" if version == "1.2" else b"",
        send("/queue/a", "vier \u00e4".encode(), priority="9", expires="1700000100000"),
    )
    ids = leader.told(0, "ack" if version == "1.2" else "message-id")
    name = "id" if version == "1.2" else "message_id"
    if ack != "auto":
        settle = {"subscription": "s"} if version == "1.1" else {}
        leader.say(0, *[frame("ACK", **{name: each}, **settle) for each in ids[1:]])
        if version != "1.0" and ack == "client-individual":
            leader.say(0, frame("NACK", **{name: ids[0]}, **settle, receipt="n"))
    leader.say(0, frame("UNSUBSCRIBE", id="s"), frame("DISCONNECT", receipt="bye"))
    return leader.talk(f"stomp {version} {ack}")


def stomp_transactions() -> Talk:
    """Lead sends and acknowledgements that are committed, and some that are not."""
    leader = Leader("stomp", "stomp")
    leader.say(1, connect(), subscribe("s", "/queue/t", "client-individual"))
    leader.say(0, connect(), frame("BEGIN", transaction="a"), frame("BEGIN", transaction="b"))
    leader.say(
        0,
        *[send("/queue/t", b"%d" % each, transaction="a", receipt=f"{each}") for each in range(5)],
        send("/queue/t", b"never", transaction="b"),
        frame("COMMIT", transaction="a", receipt="commit"),
        frame("ABORT", transaction="b", receipt="abort"),
    )
    ids = leader.told(1, "ack")
    leader.say(
        1,
        frame("BEGIN", transaction="c"),
        *[frame("ACK", id=each, transaction="c") for each in ids[:3]],
        frame("ACK", id=ids[3]),
        frame("COMMIT", transaction="c", receipt="done"),
    )
    leader.say(1, frame("DISCONNECT", receipt="bye"))
    return leader.talk("stomp transactions")


def stomp_groups(strategy: str) -> Talk:
    """Lead producers of groups, and a consumer that is slow to acknowledge."""
    leader = Leader("stomp", "stomp")
    queue = f"/queue/{strategy}.q"
    leader.say(1, connect(), subscribe("s", queue, "client-individual", credit="4,0"))
    leader.say(0, connect())
    sent = [send(queue, b"%d" % each, message_group=f"g{each % 3}") for each in range(9)]
    leader.say(0, *sent, send(queue, b"free", receipt="all"))
    for _ in range(3):
        ids = leader.told(1, "ack")
        done = sum(said.count(b"ACK") for _, said in leader.steps[3:])
        leader.say(1, *[frame("ACK", id=each) for each in ids[done:]])
    return leader.talk(f"stomp groups {strategy}")


def stomp_ack_row() -> Talk:
    """Lead a consumer that acknowledges hundreds of messages in one write."""
    leader = Leader("stomp")
    leader.say(0, connect(), subscribe("s", "/queue/row", "client-individual", credit="1000,0"))
    leader.say(0, *[send("/queue/row", b"%d" % each) for each in range(ACKS)])
    ids = leader.told(0, "ack")
    assert len(ids) == ACKS
    row = [frame("ACK", id=each) for each in ids]
    row[100] += b"\n\n"
    row[200] = frame("ACK", id=ids[200], receipt="r")
    leader.say(0, *row)
    leader.say(0, frame("DISCONNECT", receipt="bye"))
    return leader.talk("stomp row of acks")


def stomp_places() -> Talk:
    """Lead topics, retained messages, selectors, wildcards, browsers, durable subscriptions."""
    leader = Leader("stomp")
    leader.say(
        0,
        connect(),
        send("/topic/t.a", b"kept", retain="set"),
        subscribe("w", "/topic/t.*"),
        subscribe("d", "/topic/t.b", persistent="true"),
        subscribe("q", "/queue/p", selector="n > 1 and colour like 'r%'"),
    )
    leader.say(
        0,
        send("/topic/t.b,/queue/p", b"both", n="2", colour="red"),
        send("/queue/p", b"not taken", n="1", colour="red"),
        send("/topic/t.b", b"again"),
    )
    leader.say(0, subscribe("b", "/queue/p", browser="true"))
    leader.say(0, frame("UNSUBSCRIBE", id="d"), send("/topic/t.b", b"missed"))
    leader.say(0, subscribe("d", "/topic/t.b", persistent="true"))
    leader.say(0, frame("DISCONNECT", receipt="bye"))
    return leader.talk("stomp places")


def stomp_errors(wrong: bytes) -> Talk:
    """Lead a client to its mistake."""
    leader = Leader("stomp")
    leader.say(0, connect(), send("/queue/e", b"x", receipt="r"), wrong, send("/queue/e", b"late"))
    return leader.talk(f"stomp mistake {wrong[:30]!r}")


MISTAKES: Final = (
    b"FROB\n\n\0",
    b"SEND\ndestination:/queue/*\nreceipt:no\n\nx\0",
    b"SEND\ndestination:/queue/e\ncontent-length:2\n\nabc\0",
    b"ACK\nid:\n\n\0",
    b"ACK\nid:99999999999999999999999\n\n\0",
    b"SEND\ndestination:/queue/e\nx:\\t\n\n\0",
    b"SUBSCRIBE\nid:1\ndestination:/queue/e\nselector:n >\n\n\0",
)


# AMQP, frame by frame.

START: Final = AMQP_HEADER + opening() + beginning()


def outcome(number: int, code: int, *fields: bytes) -> bytes:
    """Write a disposition of one delivery."""
    return says(DISPOSITION, TRUE, uint(number), NULL, TRUE, section(code, compound(list(fields))))


def amqp_links() -> Talk:
    """Lead two links: messages, every outcome, a drain, a detach."""
    leader = Leader("amqp")
    leader.say(0, SASL_HEADER, sasl_init("PLAIN", b"\0admin\0password"))
    leader.say(0, START, attaching("in", 0, "q", sends=True))
    leader.say(0, attaching("out", 1, "q", sends=False), granting(1, 6))
    group = section(0x73, compound([NULL] * 10 + [b"\xa1\x01g"]))
    leader.say(
        0,
        transferring(0, 0, b"one"),
        transferring(0, 1, b"", message=group + section(DATA, binary(b"two"))),
        transferring(0, 2, b"three", settled=True),
        *[transferring(0, each, b"%d" % each) for each in range(3, 7)],
    )
    leader.say(0, accepting(0, 1), outcome(2, REJECTED), outcome(3, RELEASED))
    leader.say(0, outcome(4, MODIFIED, TRUE, FALSE), granting(1, 100))
    leader.say(0, accepting(5, 7), says(DETACH, uint(1), TRUE))
    leader.say(0, says(DETACH, uint(0), TRUE), says(END), says(CLOSE))
    return leader.talk("amqp links")


def amqp_parts() -> Talk:
    """Lead messages in parts, both ways, and one that is given up."""
    leader = Leader("amqp")
    leader.say(0, AMQP_HEADER, opening(frame_size=512), beginning())
    leader.say(
        0, attaching("in", 0, "parts", sends=True), attaching("out", 1, "parts", sends=False)
    )

    def part(number: int, payload: bytes, *, more: bool, aborted: bool = False) -> bytes:
        flags = (FALSE, TRUE if more else FALSE, NULL, NULL, NULL, TRUE if aborted else FALSE)
        fields = (uint(0), uint(number), binary(b"tag"), uint(0), *flags)
        return says(TRANSFER, *fields, payload=payload)

    message = section(DATA, binary(bytes(range(256)) * 5))
    leader.say(
        0,
        granting(1),
        part(0, message[:300], more=True),
        part(0, message[300:301], more=True),
        part(0, message[301:], more=False),
        part(1, b"lost", more=True),
        part(1, b"", more=False, aborted=True),
        transferring(0, 2, b"small"),
    )
    leader.say(0, accepting(0, 1), says(CLOSE))
    return leader.talk("amqp parts")


def both_protocols() -> Talk:
    """Lead a STOMP producer and an AMQP consumer, and back."""
    leader = Leader("stomp", "amqp")
    leader.say(0, connect(), subscribe("s", "/queue/back"))
    leader.say(1, START, attaching("there", 0, "there", sends=False), granting(0))
    leader.say(1, attaching("back", 1, "back", sends=True))
    leader.say(
        0,
        send("/queue/there", b"text", message_group="g", colour="red", correlation_id="c"),
        send("/queue/there", b"\xff\0", persistent="true", receipt="r"),
    )
    properties = section(0x74, compound([b"\xa1\x01k", b"\xa1\x01v"], is_map=True))
    value = section(0x77, compound([b"\xa1\x01a", uint(7)], is_map=True))
    leader.say(
        1,
        accepting(0, 1),
        transferring(1, 0, b"plain"),
        transferring(1, 1, b"", message=properties + value),
    )
    leader.say(1, says(CLOSE))
    leader.say(0, frame("DISCONNECT", receipt="bye"))
    return leader.talk("both protocols")


# AMQP, by proton.


def by_proton(name: str, act: Callable[[Peer], None], *, login: bool = False) -> Talk:
    """Have proton lead a talk."""
    user = ("admin", "password") if login else None
    peer = Peer(make_broker(), AMQP, container="proton", login=user, now=NOW_S)
    act(peer)
    peer.connection.close()
    peer.pump()
    assert not peer.errors
    return Talk(name, ("amqp",), tuple((0, said) for said in peer.sent))


def _transact(peer: Peer) -> None:
    control = Control(peer)
    link = peer.sender("tx")
    first, second = control.declare(), control.declare()
    for number in range(3):
        send_in(peer, link, first, Message(body=f"kept {number}", group_id="g"))
    send_in(peer, link, second, Message(body="never"))
    control.discharge(first).settle()
    control.discharge(second, fail=True).settle()
    peer.receiver("tx", credit=10)
    third = control.declare()
    for delivery, _ in peer.messages:
        settle_in(peer, delivery, third, Described(ulong(0x24), []))
    control.discharge(third).settle()


def _exchange(peer: Peer) -> None:
    link = peer.sender("orders")
    bodies: list[Any] = ["text", b"bytes", {"a": 1}, [1, 2.5, None], 7]
    for number, body in enumerate(bodies):
        properties = {"n": number, "colour": "red"}
        peer.send(link, Message(body=body, id=f"m{number}", properties=properties, ttl=60))
    chosen = Described(symbol("apache.org:selector-filter:string"), "n > 1")
    peer.receiver("orders", filters={symbol("s"): chosen}, credit=2)
    for delivery, _ in list(peer.messages):
        peer.settle(delivery)
    peer.receiver("orders", name="copy", copy=True)
    peer.receiver("orders", name="second", second=True, credit=1)
    peer.settle(peer.messages[-1][0], Delivery.RELEASED)
    peer.receiver(None, name="own", dynamic=True).close()
    peer.receiver("topic://news", name="kept", durable=True).detach()
    peer.pump()


def _manage(peer: Peer) -> None:
    reply_to = peer.receiver(None, dynamic=True).remote_source.address
    link = peer.sender("$management")
    for number, (operation, given) in enumerate(
        [
            ("CREATE", {"type": "org.amqp.queue", "name": "made"}),
            ("READ", {"type": "org.amqp.queue", "name": "made"}),
            ("FROB", {}),
        ]
    ):
        asked = {"operation": operation, **given}
        peer.send(link, Message(id=number, reply_to=reply_to, properties=asked))
        peer.settle(peer.messages[-1][0])


@cache
def all_talks() -> tuple[Talk, ...]:
    """Return every talk."""
    versions = [("1.0", "auto"), ("1.0", "client"), ("1.1", "client"), ("1.1", "client-individual")]
    versions += [("1.2", "auto"), ("1.2", "client"), ("1.2", "client-individual")]
    strategies = ("shared", "hash-buckets", "lru", "simple", "consistent-hash")
    return (
        *[stomp_version(version, ack) for version, ack in versions],
        stomp_transactions(),
        *[stomp_groups(strategy) for strategy in strategies],
        stomp_ack_row(),
        stomp_places(),
        *[stomp_errors(wrong) for wrong in MISTAKES],
        amqp_links(),
        amqp_parts(),
        both_protocols(),
        by_proton("amqp exchange", _exchange, login=True),
        by_proton("amqp transactions", _transact),
        by_proton("amqp management", _manage, login=True),
    )
