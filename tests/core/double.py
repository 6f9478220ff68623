"""`Room` is a broker with a clock that only a test moves, `Person` a session with what one does."""

from __future__ import annotations

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import Settings, UserSettings, VirtualHostSettings
from covey.core.broker.broker import Broker
from covey.core.clock import Clock
from covey.core.host.subscription import Subscription
from covey.core.host.virtual_host import VirtualHost
from covey.core.model.consumer import Window
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Syntax
from covey.core.naming.policies import Policies
from covey.core.queue.owner import QueueOwner, Unowned
from covey.core.security.users import Identity
from covey.core.session import Session
from covey.core.storage.store import MessageStore
from tests.core.support import depth, selector_of
from tests.doubles import HeldStore as HeldStore
from tests.doubles import Letter, Listener, Reader

START_S = 100.0


class Person:
    """A session with what one does in it."""

    def __init__(self, room: Room, session: Session) -> None:
        self.room = room
        self.session = session
        session.client = client = Listener()
        self.kicks = client.kicks

    def send(
        self, destination: str, name: str = "", *, size: int = 1, **options: int | str
    ) -> list[str]:
        """Publish a letter; the list gets its name once it is taken and safe."""
        done: list[str] = []
        broker = self.room.broker
        message = letter(name, size=size, **options)
        broker.publishing.publish(
            self.session, places(destination), message, lambda: done.append(name)
        )
        broker.run(self.room.now, self.session)
        return done

    def read(
        self, destination: str, name: str = "s", *, credit: int = 1000, selector: str = ""
    ) -> Reader:
        """Subscribe; one reader takes everything."""
        window = Window(credit)
        reader = Reader(window, self.session)
        reader.selector = selector_of(selector)
        subscription = Subscription(self.session, name, window, lambda: reader)
        broker = self.room.broker
        broker.subscribe(self.session, subscription, places(destination), self.room.now)
        broker.run(self.room.now, self.session)
        return reader

    def settle(self, reader: Reader, outcome: Outcome = Outcome.ACCEPTED) -> None:
        """Settle everything a reader holds."""
        for entry in list(reader.unsettled.values()):
            assert reader.queue is not None
            reader.queue.settle(entry, outcome, self.room.now)
        self.room.broker.run(self.room.now, self.session)


class Room:
    """A broker and its time."""

    def __init__(
        self,
        *queues: QueueSettings,
        topics: tuple[TopicSettings, ...] = (),
        hosts: tuple[VirtualHostSettings, ...] = (),
        users: tuple[UserSettings, ...] = (),
        store: MessageStore | None = None,
        limits: dict[str, object] | None = None,
    ) -> None:
        given: dict[str, object] = {"broker": limits or {}}
        lists = {"queue": queues, "topic": topics, "virtual_host": hosts, "user": users}
        given.update({name: entries for name, entries in lists.items() if entries})
        self.broker = Broker(Settings.model_validate(given), store)
        self.now = START_S

    def enter(self, name: str = "admin") -> Person:
        """Open a session."""
        session = self.broker.open(self.broker.host, Identity(name), self.now)
        return Person(self, session)

    def depth(self, name: str) -> int:
        """Count a queue's messages."""
        queue = self.broker.host.queues.get(name)
        return 0 if queue is None else depth(queue)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.broker.tick(self.now)


def letter(name: str, *, size: int = 1, **options: int | str) -> Letter:
    """Make a message; options are fields such as `expires_ms`, `retain`, `persistent`."""
    message = Letter(size, name=name)
    for field, value in options.items():
        setattr(message, field, value)
    return message


def places(text: str) -> tuple[Destination, ...]:
    """Read destinations as the default syntax spells them."""
    return Syntax().parse(text, allow_patterns=True)


def make_host(settings: Settings | None = None, owner: QueueOwner | None = None) -> VirtualHost:
    """Make a virtual host with nobody around it."""
    given = settings or Settings()
    return VirtualHost(given.virtual_hosts[0], Policies(given), Clock(), owner or Unowned())
