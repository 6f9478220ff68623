"""A broker with four STOMP clients against a small model of what clients were promised.

The model hears only what clients hear. It knows which message each client holds, what credit each
subscription has left, and what became of every message. Checked at each delivery: the message is
pending and not expired, credit was there, first deliveries of a group are in order, no two
subscriptions hold messages of one group. Checked whenever the broker rests: in = out + queued +
dead + expired; the windows are the model's; nobody with credit waits for a message that is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from covey.config.queues import QueueSettings
from tests.protocols.stomp.support import Client, Frame, World

QUOTA = 3
NAK_LIMIT = 2
QUEUES = ("limited", "free")
TRANSACTION = "t"
READERS = st.integers(0, 1)
MODES = st.sampled_from(["client", "client-individual", "auto"])
VERBS = st.sampled_from(["ACK", "ACK", "NACK"])


@dataclass
class Letter:
    """One message, as its sender and its readers know it."""

    number: int
    queue: str
    group: str
    size: int
    expires_ms: int
    state: str = "unsent"  # then pending, held, done or dead
    holder: Sub | None = None
    failures: int = 0
    was_delivered: bool = False


@dataclass
class Held:
    """A delivery the client has not settled for good."""

    letter: Letter
    frame: Frame
    is_credited: bool = False
    verb: str = ""  # what an open transaction will do with it


@dataclass(eq=False)
class Sub:
    """One subscription and its two windows."""

    id: str
    queue: str
    mode: str
    count: int
    size: int
    held: list[Held] = field(default_factory=list)

    def is_open(self) -> bool:
        return self.count > 0 or self.size > 0


class Reader:
    """A client that subscribes, with what it holds."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.subs: list[Sub] = []
        self.outbox: list[Letter] = []  # sent in the open transaction
        self.has_transaction = False


class BrokerMachine(RuleBasedStateMachine):
    """What clients do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        limited = QueueSettings(
            id="limited", quota_messages=QUOTA, nak_limit=NAK_LIMIT, dlq="graveyard"
        )
        self.world = World(queues=(limited, QueueSettings()))
        self.producer = self.world.connect()
        self.readers = [Reader(self.world.connect()) for _ in range(2)]
        self.letters: list[Letter] = []
        self.newest: dict[tuple[str, str], int] = {}
        self.ids = 0

    # What clients do.

    @initialize(mode=MODES)
    def start(self, mode: str) -> None:
        """Have somebody read from the first moment: most runs are about what readers hold."""
        self.subscribe(0, QUEUES[0], mode, 2, 0)
        self.subscribe(1, QUEUES[1], "client-individual", 1, 4)

    @rule(
        queue=st.sampled_from(QUEUES),
        groups=st.lists(st.sampled_from(["", "g", "h"]), min_size=1, max_size=4),
        padding=st.integers(0, 3),
        ttl=st.sampled_from([0, 0, 0, 900]),
    )
    def publish(self, queue: str, groups: list[str], padding: int, ttl: int) -> None:
        for group in groups:
            letter, headers = self._write(queue, group, ttl)
            body = f"{letter.number} {'x' * padding}"
            letter.size = len(body)
            self.producer.send("SEND", {**headers, "receipt": str(letter.number)}, body)
            self._listen()

    @rule(
        who=READERS,
        queue=st.sampled_from(QUEUES),
        mode=MODES,
        count=st.integers(0, 3),
        size=st.integers(0, 8),
    )
    def subscribe(self, who: int, queue: str, mode: str, count: int, size: int) -> None:
        reader = self.readers[who]
        if len(reader.subs) == 2:
            return
        self.ids += 1
        sub = Sub(f"s{self.ids}", queue, mode, count, size)
        reader.subs.append(sub)
        reader.client.subscribe(f"/queue/{queue}", id=sub.id, ack=mode, credit=f"{count},{size}")
        self._listen()

    @precondition(lambda self: self._settleable())
    @rule(
        steps=st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 3), VERBS, st.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    def settle(self, steps: list[tuple[int, int, str, bool]]) -> None:
        for which, at, verb, in_transaction in steps:
            choices = self._settleable()
            if choices:
                reader, target = choices[which % len(choices)]
                self._settle(reader, target, at, verb, in_transaction=in_transaction)

    @rule(who=READERS)
    def send_in_transaction(self, who: int) -> None:
        reader = self.readers[who]
        letter, headers = self._write("free", "", 0)
        body = str(letter.number)
        letter.size = len(body)
        reader.outbox.append(letter)
        reader.has_transaction = True
        reader.client.send("SEND", {**headers, "transaction": TRANSACTION}, body)
        self._listen()

    @precondition(lambda self: any(reader.has_transaction for reader in self.readers))
    @rule(verb=st.sampled_from(["COMMIT", "ABORT"]))
    def end_transaction(self, verb: str) -> None:
        reader = next(reader for reader in self.readers if reader.has_transaction)
        self._end_transaction(reader, is_commit=verb == "COMMIT")
        reader.client.send(verb, {"transaction": TRANSACTION})
        self._listen()

    @precondition(lambda self: self._settleable())
    @rule(who=READERS, sub=st.integers(0, 1))
    def unsubscribe(self, who: int, sub: int) -> None:
        reader = self.readers[who]
        if sub >= len(reader.subs) or any(held.verb for held in reader.subs[sub].held):
            return  # the transaction of a gone subscription has a test of its own
        self._leave(reader.subs.pop(sub), reader)

    @precondition(lambda self: any(self._holds(reader) for reader in self.readers))
    @rule()
    def lose(self) -> None:
        who = [self._holds(reader) for reader in self.readers].index(True)
        reader = self.readers[who]
        self._end_transaction(reader, is_commit=False)
        for sub in reader.subs:
            self._return_all(sub)
        reader.client.lose()
        self.readers[who] = Reader(self.world.connect())
        self._listen()
        self.subscribe(who, QUEUES[who], "client-individual", 2, 0)

    @rule(seconds=st.sampled_from([0.3, 1.1, 2.5]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        self._listen()

    # What must hold whenever the broker rests.

    @invariant()
    def every_message_is_accounted_for(self) -> None:
        for name in QUEUES:
            mine = [letter for letter in self.letters if letter.queue == name]
            taken = [letter for letter in mine if letter.state != "unsent"]
            out = [letter for letter in taken if letter.state in ("done", "dead")]
            depth = self.world.depth(f"/queue/{name}")
            if name in self.world.broker.host.queues:
                expired = self.world.queue(f"/queue/{name}").counters.expired
                assert len(taken) == len(out) + depth + expired
        dead = [letter for letter in self.letters if letter.state == "dead"]
        buried = [letter for letter in dead if letter.queue == "limited"]
        assert self.world.depth("/queue/graveyard") == len(buried)
        assert self.world.depth("/queue/limited") <= QUOTA

    @invariant()
    def the_windows_are_what_clients_reckon(self) -> None:
        for reader in self.readers:
            known = reader.client.session.core.subscriptions
            assert {sub.id for sub in reader.subs} == set(known)
            for sub in reader.subs:
                window = known[sub.id].window
                assert (window.count, window.size) == (sub.count, sub.size)

    @invariant()
    def nobody_with_credit_waits_for_a_free_message(self) -> None:
        for name in QUEUES:
            subs = [sub for reader in self.readers for sub in reader.subs if sub.queue == name]
            waiting = [one for one in self._pending(name) if not self._is_over(one)]
            if any(sub.is_open() for sub in subs):
                assert not [one for one in waiting if not one.group]
            if subs and all(sub.is_open() for sub in subs):
                busy = {held.letter.group for sub in subs for held in sub.held}
                assert not [one for one in waiting if one.group and one.group not in busy]

    @precondition(lambda self: self.world.depth("/queue/limited") < QUOTA)
    @invariant()
    def nobody_waits_for_room_that_is_there(self) -> None:
        assert self.producer.engine.reading

    # The model's own steps.

    def _write(self, queue: str, group: str, ttl: int) -> tuple[Letter, dict[str, str]]:
        expires_ms = self.world.wall_ms + ttl if ttl else 0
        letter = Letter(len(self.letters), queue, group, 0, expires_ms)
        self.letters.append(letter)
        headers = {"destination": f"/queue/{queue}"}
        if group:
            headers["message_group"] = group
        if ttl:
            headers["expires"] = str(expires_ms)
        return letter, headers

    def _holds(self, reader: Reader) -> bool:
        return any(sub.held for sub in reader.subs)

    def _settleable(self) -> list[tuple[Reader, Sub]]:
        return [
            (reader, sub)
            for reader in self.readers
            for sub in reader.subs
            if any(not held.verb for held in sub.held)
        ]

    def _pending(self, queue: str) -> list[Letter]:
        return [one for one in self.letters if one.queue == queue and one.state == "pending"]

    def _is_over(self, letter: Letter) -> bool:
        return 0 < letter.expires_ms <= self.world.wall_ms

    def _settle(
        self, reader: Reader, target: Sub, at: int, verb: str, *, in_transaction: bool
    ) -> None:
        free = [held for held in target.held if not held.verb]
        named = free[min(at, len(free) - 1)]
        is_single = target.mode == "client-individual"
        covered = [named] if is_single else free[: free.index(named) + 1]
        for held in covered:
            if not held.is_credited:
                held.is_credited = True
                target.count += 1
                target.size += held.letter.size
            if in_transaction:
                held.verb = verb
            else:
                self._settled(target, held, verb)
        reader.has_transaction = reader.has_transaction or in_transaction
        extra = {"transaction": TRANSACTION} if in_transaction else {}
        reader.client.ack(named.frame, verb, **extra)
        self._listen()

    def _settled(self, sub: Sub, held: Held, verb: str) -> None:
        sub.held.remove(held)
        letter = held.letter
        if sub.mode == "auto":
            return
        letter.holder = None
        if verb == "ACK":
            letter.state = "done"
            return
        letter.failures += 1
        limit = NAK_LIMIT if letter.queue == "limited" else 0
        letter.state = "dead" if limit and letter.failures >= limit else "pending"

    def _end_transaction(self, reader: Reader, *, is_commit: bool) -> None:
        for sub in reader.subs:
            for held in [held for held in sub.held if held.verb]:
                if is_commit:
                    self._settled(sub, held, held.verb)
                else:
                    held.verb = ""
        for letter in reader.outbox:
            letter.state = "pending" if is_commit else letter.state
        reader.outbox.clear()
        reader.has_transaction = False

    def _leave(self, sub: Sub, reader: Reader) -> None:
        self._return_all(sub)
        reader.client.send("UNSUBSCRIBE", {"id": sub.id})
        self._listen()

    def _return_all(self, sub: Sub) -> None:
        for held in sub.held:
            if sub.mode != "auto":
                held.letter.state, held.letter.holder = "pending", None
                held.letter.failures += 1
        sub.held.clear()

    def _listen(self) -> None:
        """Hear everything that came: receipts first, since a message may follow its own."""
        for receipt in self.producer.take_all("RECEIPT"):
            letter = self.letters[int(receipt["receipt-id"])]
            assert letter.state == "unsent"
            letter.state = "pending"
        for reader in self.readers:
            assert not reader.client.engine.is_closed
            for message in reader.client.take_all():
                self._delivered(reader, message)

    def _delivered(self, reader: Reader, message: Frame) -> None:
        letter = self.letters[int(message.body.split()[0])]
        sub = next(sub for sub in reader.subs if sub.id == message["subscription"])
        assert letter.state == "pending"
        assert sub.is_open()
        assert not self._is_over(letter)
        assert ("redelivered" in message.headers) == (letter.failures > 0)
        if letter.group:
            self._check_group(letter, sub)
        sub.count -= 1
        sub.size -= letter.size
        sub.held.append(Held(letter, message))
        letter.was_delivered = True
        if sub.mode == "auto":
            letter.state = "done"
        else:
            letter.state, letter.holder = "held", sub

    def _check_group(self, letter: Letter, sub: Sub) -> None:
        place = (letter.queue, letter.group)
        if not letter.was_delivered:
            assert letter.number > self.newest.get(place, -1)
            self.newest[place] = letter.number
        holders = {
            one.holder
            for one in self.letters
            if (one.queue, one.group) == place and one.holder is not None
        }
        assert holders <= {sub}


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),  # explaining a failure traces every line of every run
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
