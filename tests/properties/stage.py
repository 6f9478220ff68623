"""Stage: a broker and clients of both protocols, joined by bytes alone, with a clock that stands.

A `Talk` is what the clients say, step by step; whoever plays it on a new stage hears the same
bytes, for nothing here is left to chance: no time, no random number. A client sends a step when it
has heard the answers to the one before. How a step is cut on its way is the player's choice.

An exception that comes out of an engine is what a client heard last; nothing goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from random import Random
from typing import Final, NamedTuple

from covey.config.queues import QueueSettings
from covey.config.settings import AmqpSettings, Settings, StompSettings
from covey.core.broker.broker import Broker
from covey.core.security.throttle import Throttle
from covey.core.security.users import Users
from covey.protocols.amqp.engine import AmqpEngine
from covey.protocols.engine import Engine
from covey.protocols.stomp.engine import StompEngine
from tests.core.host.counted import check_counts

NOW_S: Final = 1000.0
WALL_MS: Final = 1_700_000_000_000
TURNS_MAX: Final = 1000  # after which a stage that is never quiet is a bug
FAULT: Final = b"\n!! "  # stands before an exception in what a client has heard

STOMP: Final = StompSettings()
AMQP: Final = AmqpSettings(allow_anonymous=True)
SETTINGS: Final = Settings.model_validate(
    {
        "user": (),
        "broker": {"login_failed_wait_s": 0},
        "queue": [
            *[
                {"id": f"{name}.**", "groups": {"strategy": name, "header": "message_group"}}
                for name in ("shared", "hash-buckets", "lru", "simple", "consistent-hash")
            ],
            QueueSettings(),
        ],
    }
)
_USERS: Final = Users(Settings().users)  # made once: that takes longer than a talk

Cut = Callable[[int, bytes], Iterable[bytes]]  # of a step by its number


class Talk(NamedTuple):
    """What clients say, each step by the number of its client."""

    name: str
    clients: tuple[str, ...]  # the protocol of each
    steps: tuple[tuple[int, bytes], ...]

    @property
    def size(self) -> int:
        """Bytes of all steps."""
        return sum(len(said) for _, said in self.steps)


def make_broker() -> Broker:
    """Return a broker like any other of this module."""
    broker = Broker(SETTINGS)
    broker.users = copy(_USERS)
    broker.users.throttle = Throttle()
    broker.clock.offset = WALL_MS / 1000 - NOW_S
    return broker


def make_engine(broker: Broker, protocol: str) -> Engine:
    """Return a new connection to it."""
    if protocol == "stomp":
        return StompEngine(broker, STOMP, now=NOW_S)
    return AmqpEngine(broker, AMQP, now=NOW_S)


class Seat:
    """One client's end of its connection."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_awake = True
        self.unread = b""  # what the broker has not read yet
        self.heard: list[bytes] = []
        self.fault = ""
        engine.wake = self.wake

    def wake(self) -> None:
        self.is_awake = True

    def work(self) -> bool:
        """Do what the shell around an engine does; False if there was nothing to do."""
        if self.fault:
            return False
        try:
            return self._work()
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
            self.heard.append(FAULT + self.fault.encode())
            return True

    def leave(self) -> None:
        """Be gone without a word."""
        try:
            self.engine.lost(NOW_S)
        except Exception as error:
            self.fault = self.fault or f"{type(error).__name__}: {error}"

    def _work(self) -> bool:
        engine = self.engine
        was_busy = self.is_awake
        if self.is_awake:
            self.is_awake = False
            engine.tick(NOW_S)
        if self.unread and engine.reading and not engine.is_closed:
            data, self.unread = self.unread, b""
            engine.receive(data, NOW_S)
            was_busy = True
        out = engine.outgoing()
        if out:
            self.heard.append(out)
        return was_busy or bool(out)


class Stage:
    """A broker and its clients."""

    def __init__(self, clients: Sequence[str], broker: Broker | None = None) -> None:
        self.broker = broker or make_broker()
        self.seats = [Seat(make_engine(self.broker, protocol)) for protocol in clients]

    def say(self, client: int, data: bytes) -> None:
        """Have a client send bytes, and let everybody work."""
        self.seats[client].unread += data
        self.settle()

    def settle(self) -> None:
        """Let everybody work until nothing happens any more."""
        for _ in range(TURNS_MAX):
            self.broker.run(NOW_S)
            if not any([seat.work() for seat in self.seats]) and not self.broker.turns.is_any_dirty:
                check_counts(self.broker)
                return
        raise AssertionError("the stage is never quiet")

    def heard(self, client: int) -> bytes:
        """Return everything a client was told."""
        return b"".join(self.seats[client].heard)

    def close(self) -> None:
        """Let everybody go."""
        for seat in self.seats:
            seat.leave()


def play(talk: Talk, cut: Cut) -> list[bytes]:
    """Play a talk on a new stage; return what each client heard, an exception included."""
    stage = Stage(talk.clients)
    for number, (client, said) in enumerate(talk.steps):
        for piece in cut(number, said):
            stage.say(client, piece)
    heard = [stage.heard(client) for client in range(len(talk.clients))]
    stage.close()
    faults = [FAULT + seat.fault.encode() if seat.fault else b"" for seat in stage.seats]
    return [
        said if said.endswith(fault) else said + fault
        for said, fault in zip(heard, faults, strict=True)
    ]


# Ways to cut.


def whole(number: int, said: bytes) -> Iterable[bytes]:
    """Cut nothing."""
    return (said,)


def bytewise(number: int, said: bytes) -> Iterable[bytes]:
    """Cut everywhere."""
    return [said[at : at + 1] for at in range(len(said))]


def cut_at(step: int, place: int) -> Cut:
    """Cut one step in two."""

    def cut(number: int, said: bytes) -> Iterable[bytes]:
        return (said[:place], said[place:]) if number == step else (said,)

    return cut


def cut_by(seed: int) -> Cut:
    """Cut into chunks of any size, the same ones for the same seed."""

    def cut(number: int, said: bytes) -> Iterable[bytes]:
        dice = Random(f"{seed} {number}")
        at = 0
        while at < len(said):
            size = int(2 ** (dice.random() * 9))
            yield said[at : at + size]
            at += size

    return cut
