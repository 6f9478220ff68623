"""Peer: proton as an AMQP client, joined to an engine by bytes alone.

`pump` carries bytes both ways until neither side has any and collects what the client sees. No
socket, no clock: time passes when a test says so.
"""

from __future__ import annotations

from typing import Any

from proton import (
    Collector,
    Condition,
    Connection,
    Delivery,
    Event,
    Link,
    Message,
    Receiver,
    Sender,
    Session,
    Terminus,
    Transport,
)

from covey.config.settings import AmqpSettings, Settings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.engine import AmqpEngine

OPEN_TO_ALL = AmqpSettings(allow_anonymous=True)


def make_broker(**settings: Any) -> Broker:
    """Return a broker with a memory store."""
    return Broker(Settings(**settings))


JOB_ROUNDS = 200  # without a byte: a job that never ends is waited for no longer


class Peer:
    """One client connection."""

    def __init__(
        self,
        broker: Broker,
        settings: AmqpSettings = OPEN_TO_ALL,
        *,
        container: str = "peer",
        login: tuple[str, str] | None = None,
        max_frame_size: int = 0,
        hostname: str | None = None,
        now: float = 1.0,
    ) -> None:
        """Connect, as `login` or as nobody, and open."""
        self.broker = broker
        self.now = now
        self.engine = AmqpEngine(broker, settings, remote="test", now=now)
        self.transport = Transport()
        if max_frame_size:
            self.transport.max_frame_size = max_frame_size
        self.connection = Connection()
        self.connection.container = container
        if hostname is not None:
            self.connection.hostname = hostname
        if login is not None:
            self.connection.user, self.connection.password = login
            sasl = self.transport.sasl()
            sasl.allowed_mechs("PLAIN")
            sasl.allow_insecure_mechs = True
        self.prepare(self.connection)
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self.messages: list[tuple[Delivery, Message]] = []
        self.raw: list[bytes] = []
        self.sent: list[bytes] = []
        self.updates: list[Delivery] = []
        self.errors: list[Condition] = []
        self.ended: list[Link] = []
        self.connection.open()
        self.session: Session = self.connection.session()
        self.session.open()
        self.pump()

    def prepare(self, connection: Connection) -> None:
        """Say what the open is to have besides."""

    # Bytes.

    def pump(self) -> None:
        """Carry bytes both ways until both are quiet."""
        idle = 0
        for _ in range(1000):
            sent = self._to_engine()
            jobs = self.engine.broker.jobs
            if jobs.is_busy:
                self.engine.broker.go_on(self.now)
            self.engine.tick(self.now)
            got = self._from_engine()
            idle = 0 if sent or got else idle + 1
            if idle and (not jobs.is_busy or idle > JOB_ROUNDS):
                return
        raise AssertionError("the two never become quiet")

    def _to_engine(self) -> bool:
        pending = self.transport.pending()
        if pending <= 0:
            return False
        data = bytes(self.transport.peek(pending) or b"")
        self.transport.pop(len(data))
        self.sent.append(data)
        if not self.engine.is_closed:
            self.engine.receive(data, self.now)
        return True

    def _from_engine(self) -> bool:
        data = self.engine.outgoing()
        rest = data
        while rest:
            room = self.transport.capacity()
            if room <= 0:
                break
            self.transport.push(rest[:room])
            rest = rest[room:]
            self._events()
        self._events()
        return bool(data)

    def _events(self) -> None:
        event: Any = self.collector.peek()
        while event is not None:
            self._handle(event)
            self.collector.pop()
            event = self.collector.peek()

    def _handle(self, event: Any) -> None:
        if event.type == Event.DELIVERY:
            self._on_delivery(event.delivery)
        elif event.type in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
            self.ended.append(event.link)
            if event.link.remote_condition is not None:
                self.errors.append(event.link.remote_condition)
        elif event.type == Event.CONNECTION_REMOTE_CLOSE:
            if self.connection.remote_condition is not None:
                self.errors.append(self.connection.remote_condition)
        elif event.type == Event.TRANSPORT_ERROR and self.transport.condition is not None:
            self.errors.append(self.transport.condition)

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.link.is_sender:
            self.updates.append(delivery)
            return
        if not delivery.readable or delivery.partial:
            return
        data = bytes(delivery.link.recv(delivery.pending) or b"")
        delivery.link.advance()
        message = Message()
        message.decode(data)
        self.raw.append(data)
        self.messages.append((delivery, message))

    # Links.

    def sender(self, address: str | None, *, name: str = "", capability: str = "") -> Sender:
        """Attach a sending link."""
        link = self.session.sender(name or f"to-{address}")
        if address is not None:
            link.target.address = address
        else:
            link.target.type = Terminus.TARGET
        if capability:
            link.target.capabilities.put_object([capability])
        link.open()
        self.pump()
        return link

    def receiver(
        self, address: str | None, *, credit: int = 100, name: str = "", **options: Any
    ) -> Receiver:
        """Attach a receiving link; options: capabilities, filters, copy, durable, presettled..."""
        link = self.session.receiver(name or f"from-{address}")
        source = link.source
        if address is not None:
            source.address = address
        if options.get("capabilities"):
            source.capabilities.put_object(list(options["capabilities"]))
        if options.get("filters"):
            source.filter.put_object(options["filters"])
        if options.get("copy"):
            source.distribution_mode = Terminus.DIST_MODE_COPY
        if options.get("durable"):
            source.durability = Terminus.DELIVERIES
            source.expiry_policy = Terminus.EXPIRE_NEVER
        if options.get("dynamic"):
            source.dynamic = True
        if options.get("presettled"):
            link.snd_settle_mode = Link.SND_SETTLED
        if options.get("second"):
            link.rcv_settle_mode = Link.RCV_SECOND
        link.open()
        if credit:
            link.flow(credit)
        self.pump()
        return link

    def send(self, link: Sender, message: Message | str, *, settled: bool = False) -> Delivery:
        """Send a message and let it arrive."""
        if isinstance(message, str):
            message = Message(body=message)
        delivery = message.send(link)
        if settled:
            delivery.settle()
        self.pump()
        return delivery

    def bodies(self) -> list[Any]:
        """Return the bodies received so far."""
        return [message.body for _, message in self.messages]

    def settle(self, delivery: Delivery, state: int = Delivery.ACCEPTED) -> None:
        """Settle a received delivery."""
        delivery.update(state)
        delivery.settle()
        self.pump()

    def lose(self) -> None:
        """Cut the connection without a word."""
        self.engine.lost(self.now)

    @property
    def conditions(self) -> list[str]:
        """Return the names of the errors seen."""
        return [condition.name for condition in self.errors]
