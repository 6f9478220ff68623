"""Outgoing links: random clients never get more than they asked for, and at last everything.

Two clients give and take back credit and windows, drain, settle in all ways, come and go. Each
keeps its own books by the specification: a transfer beyond its session's window or its link's
credit fails the test, and so does a byte that the outbox has miscounted.
"""

from __future__ import annotations

import random

import pytest

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec.encoder import NULL, TRUE, boolean, compound, section, uint
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from tests.core.support import depth
from tests.e2e.amqp_bytes import (
    ATTACH,
    DETACH,
    DISPOSITION,
    FLOW,
    TRANSFER,
    WINDOW,
    Heard,
    attaching,
    says,
    transferring,
)
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import Raw

SETTINGS = AmqpSettings(allow_anonymous=True, outbox_max=20_000, link_credit=50)
NUMBERS = 2**32
PLACES = ("q", "r", "/topic/t")
STATES = (0x24, 0x24, 0x24, 0x25, 0x26, 0x27)
CREDITS = (0, 1, 2, 10, 1000, NUMBERS - 1)
WINDOWS = (0, 1, 3, 50, 1000)
MOVES = 120


class Reader:
    """A link on which a client receives, as the client knows it."""

    def __init__(self, name: str, handle: int) -> None:
        self.name = name
        self.handle = handle
        self.count = 0  # of deliveries that have begun, and of credit that was given back
        self.limit = 0
        self.number: object = None  # of the delivery that is not complete yet
        self.numbers: set[int] = set()  # of those that are to be settled


class Client:
    """One connection, at random."""

    def __init__(self, broker: Broker, chance: random.Random, name: str) -> None:
        self.chance = chance
        self.name = name
        self.raw = Raw(broker, SETTINGS, frame_size=chance.choice((512, 4096, 65536)))
        self.readers: list[Reader] = []
        self.by_handle: dict[object, Reader] = {}  # the broker's
        self.senders: list[int] = []
        self.handles = 0
        self.sent = 0
        self.received = 0
        self.window = 2**31 - 1  # as `Raw` has begun

    def say(self, *frames: bytes) -> None:
        """Send frames, and hear what there is to hear."""
        for heard in self.raw.say(*frames):
            self.hear(heard)
        self.check()

    def hear(self, heard: Heard) -> None:
        """Keep the books."""
        fields = [*heard.fields, *[None] * 9]
        reader = self.by_handle.get(fields[0])
        if heard.code == ATTACH and fields[2] is False:
            self.by_handle[fields[1]] = self.readers[-1]
        elif heard.code == TRANSFER and reader is not None:
            self.received += 1
            assert self.received <= self.window
            if reader.number is None:
                reader.count += 1
                assert reader.count <= reader.limit
            assert reader.number in (None, fields[1])
            reader.number = fields[1] if fields[5] else None
            if not fields[4] and isinstance(fields[1], int):
                reader.numbers.add(fields[1])
        elif heard.code == FLOW and fields[8] and isinstance(fields[5], int):
            drained = self.by_handle[fields[4]]
            drained.count += (fields[5] - drained.count) % NUMBERS
            assert (fields[6], drained.count) == (0, drained.limit) or drained.limit < drained.count
        assert heard.code != DETACH or fields[2] is None

    def check(self) -> None:
        """Compare the outbox with what is said of it, and deliveries with their links."""
        (channel,) = self.raw.engine.framing.channels.values()
        links = [each for each in channel.links.values() if isinstance(each, OutgoingLink)]
        waiting = sum(sum(len(data) for data, _ in each.outbox) - each.offset for each in links)
        assert waiting == self.raw.engine.backpressure.outbox_size
        assert channel.unsettled.links == {n: each for each in links for n in each.unsettled}

    # What it does.

    def attach(self) -> None:
        """Begin to send, or to receive."""
        handle, self.handles = self.handles, self.handles + 1
        name, place = f"{self.name}-{handle}", self.chance.choice(PLACES)
        if self.chance.random() < 0.4 and len(self.senders) < 3:
            self.senders.append(handle)
            self.say(attaching(name, handle, place, sends=True))
        elif len(self.readers) < 4:
            self.readers.append(Reader(name, handle))
            mode = self.chance.choice((1, 2, 2, 2))
            self.say(attaching(name, handle, place, sends=False, settle_mode=mode))

    def send(self) -> None:
        """Send some messages."""
        for _ in range(self.chance.randrange(8) if self.senders else 0):
            content = bytes(self.chance.choice((1, 10, 3000)))
            handle, number = self.chance.choice(self.senders), self.sent
            self.sent += 1
            self.say(transferring(handle, number, content, settled=self.chance.random() < 0.3))

    def grant(self, credit: int, window: int, *, drain: bool = False) -> None:
        """Say how much may come, on one link and in all."""
        if self.readers:
            reader = self.chance.choice(self.readers)
            reader.limit = reader.count + credit
            self.window = self.received + window
            session = (uint(self.received), uint(window), uint(0), WINDOW)
            link = (uint(reader.handle), uint(reader.count % NUMBERS), uint(credit))
            echo = boolean(self.chance.random() < 0.2 and not drain)
            self.say(says(FLOW, *session, *link, NULL, boolean(drain), echo))

    def settle(self) -> None:
        """Settle some deliveries, or say what is to become of them."""
        reader = self.chance.choice([each for each in self.readers if each.numbers] or [None])
        if reader is not None:
            first = self.chance.choice(sorted(reader.numbers))
            state = section(self.chance.choice(STATES), compound([]))
            is_settled = self.chance.random() < 0.7
            self.say(says(DISPOSITION, TRUE, uint(first), NULL, boolean(is_settled), state))
            reader.numbers.discard(first)

    def detach(self) -> None:
        """End a link."""
        if self.readers:
            reader = self.readers.pop(self.chance.randrange(len(self.readers)))
            self.by_handle = {n: each for n, each in self.by_handle.items() if each is not reader}
            self.say(says(DETACH, uint(reader.handle), TRUE))

    def move(self) -> None:
        """Do anything."""
        what = self.chance.random()
        if what < 0.15:
            self.attach()
        elif what < 0.45:
            self.send()
        elif what < 0.75:
            sizes = self.chance.choice(CREDITS), self.chance.choice(WINDOWS)
            self.grant(*sizes, drain=self.chance.random() < 0.2)
        elif what < 0.95:
            self.settle()
        else:
            self.detach()

    def finish(self) -> None:
        """Take and accept whatever there is."""
        accepted = section(0x24, compound([]))
        for _ in range(len(self.readers) * 2):
            self.grant(5000, 5000)
        for reader in self.readers:
            numbers, reader.numbers = reader.numbers, set()
            for number in sorted(numbers):
                self.say(says(DISPOSITION, TRUE, uint(number), NULL, TRUE, accepted))


@pytest.mark.parametrize("seed", range(8))
def test_random_clients_get_what_they_ask_for_and_nothing_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    broker = make_broker()
    clients = [Client(broker, chance, name) for name in ("one", "two")]
    for _ in range(MOVES):
        chance.choice(clients).move()
        chance.choice(clients).say()
    last = clients[0]
    for place in ("q", "r"):
        last.readers.append(Reader(place, last.handles))
        last.handles += 1
        last.say(attaching(place, last.handles - 1, place, sends=False))
    for _ in range(20):
        for client in clients:
            client.finish()
    assert [depth(each) for each in broker.host.queues.values()] == [0, 0]
    assert all(each.number is None for client in clients for each in client.readers)
    assert [client.raw.engine.backpressure.is_paused for client in clients] == [False, False]
