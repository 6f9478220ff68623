"""Lives: a broker on a store that is killed, and what must hold of every message from life to life.

The store hands a batch to the disk only when the test says so. A kill loses all batches that it
still has. So what a kill leaves is known exactly: the state of the broker when it handed over the
last batch that was written.

Judged at each batch, from state to state: no message is in two places; messages of a queue keep
their order, and those that arrive stand behind; what arrives from another queue comes in its
group's order; nothing is gone that nobody settled or purged; what a command has taken of a group is
a prefix. Judged at each delivery: the gate, the group's order, and that the group is neither parked
nor about to follow a dead message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from covey.config.settings import Settings, StoreSettings
from covey.core.broker.broker import Broker
from covey.core.model.consumer import Window
from covey.core.model.entry import GONE, PENDING, Entry
from covey.core.publishing.transfer import Transfer
from covey.core.queue.queue import Queue
from covey.core.storage.changes import Changes
from covey.core.storage.sqlite.store import SqliteStore
from tests.core.storage.bench import Loop
from tests.core.storage.sqlite.support import ADMIN, Note
from tests.doubles import Reader

Place = tuple[int, str, str, bool]  # a message's number, its group, its name, whether it is kept


@dataclass
class State:
    """What all queues hold, in order, and which groups are stopped."""

    queues: dict[str, list[Place]] = field(default_factory=dict)
    parked: set[tuple[str, str]] = field(default_factory=set)
    dying: set[tuple[str, str]] = field(default_factory=set)

    def numbers(self, queue: str) -> set[int]:
        """Give the numbers of a queue's messages."""
        return {seq for seq, _, _, _ in self.queues.get(queue, ())}

    def kept(self) -> State:
        """Tell what of it outlives the process."""
        found = {name: [place for place in row if place[3]] for name, row in self.queues.items()}
        full = {name: row for name, row in found.items() if row}
        # A rest of which no message is left has nothing to follow.
        groups = {(name, group) for name, row in full.items() for _, group, _, _ in row}
        return State(full, self.parked, self.dying & groups)


class HeldBatches(SqliteStore):
    """A store that writes its batches when the test says so."""

    life: Life

    def flush(self, ticket: int, can_wait: bool = False) -> None:
        """Keep a batch, with the state that it leads to."""
        changes = self._changes
        self._changes = self._of_messages = Changes()
        changes.tickets.append(ticket)
        self.life.handed_over(changes)

    def write(self, changes: Changes) -> None:
        """Write a batch."""
        self._writer.submit(changes)


@dataclass
class Command:
    """A command under way, and the numbers it is to take, the first ones first."""

    job: Transfer
    queue: str
    numbers: list[int]


class Judged(Reader):
    """A consumer whose deliveries are judged."""

    life: Life

    def deliver(self, entry: Entry) -> None:
        super().deliver(entry)
        self.life.judge_delivery(self, entry)


class Life:
    """One life of a broker, from its start to its kill."""

    def __init__(self, directory: Path, settings: Settings, before: State | None = None) -> None:
        stored = StoreSettings(
            kind="sqlite", path=str(directory), disk_free_min=0, disk_free_percent=0
        )
        self.loop = Loop()
        self.store = HeldBatches(stored, self.loop.notify)
        self.store.life = self
        self.now = 1.0
        self.held: list[tuple[Changes, State]] = []
        self.written = before or State()
        self.last = self.written
        self.names = {
            (queue, seq): name
            for queue, row in self.written.queues.items()
            for seq, _, name, _ in row
        }
        self.may_go: set[str] = set()  # settled, purged or deleted
        self.taken: set[tuple[str, int]] = (
            set()
        )  # settled, or by other commands than those on groups
        self.commands: list[Command] = []
        self.readers: list[Judged] = []
        self.deliveries = 0
        self.broker = Broker(settings, self.store, {Note.kind: Note.restore})
        self.session = self.broker.open(self.broker.host, ADMIN, self.now)
        found = self.seen().kept()
        assert found == self.written, f"a kill left {found}, not {self.written}"

    # What the broker holds.

    def seen(self) -> State:
        """Tell what is there."""
        state = State()
        factory = self.broker.host.queue_factory
        for name, queue in self.broker.host.queues.items():
            state.queues[name] = [
                (entry.seq, entry.lane.name, self._name(name, entry), self._is_kept(name, entry))
                for entry in queue.state.index
                if entry.state != GONE
            ]
        for name in factory.parked.queues():
            state.parked |= {(name, group) for group in factory.parked.of(name)}
        for name in factory.dying.queues():
            state.dying |= {(name, group) for group in factory.dying.of(name)}
        return state

    def _name(self, queue: str, entry: Entry) -> str:
        if entry.message is not None:
            name = entry.message.neutral().body.decode()
            assert self.names.setdefault((queue, entry.seq), name) == name
        return self.names[queue, entry.seq]

    def _is_kept(self, queue: str, entry: Entry) -> bool:
        return self._name(queue, entry).startswith("kept")

    # Batches.

    def handed_over(self, changes: Changes) -> None:
        """Judge the state that a batch leads to."""
        state = self.seen()
        self.judge_passage(self.last, state)
        self.last = state
        self.held.append((changes, state))

    def write(self, count: int) -> None:
        """Bring the next batches to the disk."""
        for changes, state in self.held[:count]:
            self.store.write(changes)
            self.written = state.kept()
            while changes.tickets[0] in self.broker.commits.in_flight:
                self.loop.turn()
        del self.held[:count]
        self.run()

    def run(self) -> None:
        """Let the broker have a turn, and the bodies that it asks for."""
        self.broker.run(self.now)
        pager = self.broker.commits.pager
        assert pager is not None
        while pager.pages_under_way:
            self.loop.turn()
            self.broker.run(self.now)

    def go_on(self) -> None:
        """Do a portion of the work under way."""
        self.broker.go_on(self.now)
        self.run()
        for command in [one for one in self.commands if one.job.is_over]:
            self.commands.remove(command)
            there = self.seen().numbers(command.queue)
            left = [seq for seq in command.numbers if seq in there]
            assert command.job.flaw is not None or not left, f"it ended, and {left} are there"

    def kill(self) -> State:
        """End without another word; tell what is on the disk."""
        self.store.close()
        return self.written

    # Laws.

    def judge_passage(self, before: State, after: State) -> None:
        """Judge what one turn has changed."""
        was = {place[2]: (queue, place[1]) for queue, row in before.queues.items() for place in row}
        names = [place[2] for row in after.queues.values() for place in row]
        assert len(names) == len(set(names)), f"some are in two places: {sorted(names)}"
        gone = set(was) - set(names) - self.may_go
        assert not gone, f"{gone} are gone, and nobody settled or purged them"
        for queue, row in after.queues.items():
            old = before.queues.get(queue, [])
            numbers = after.numbers(queue)
            stayed = [place for place in old if place[0] in numbers]
            assert row[: len(stayed)] == stayed, f"{queue}: {row} came of {old}"
            self._judge_arrivals([place[2] for place in row[len(stayed) :]], was, before)
        for command in self.commands:
            self._judge_prefix(command, after)

    def _judge_arrivals(
        self, names: list[str], was: dict[str, tuple[str, str]], before: State
    ) -> None:
        rows: dict[tuple[str, str], list[str]] = {}
        for name in names:
            if name in was and was[name][1]:
                rows.setdefault(was[name], []).append(name)
        for (queue, _), row in rows.items():
            # Who settles messages, or takes them by their numbers, chooses an order.
            line = [
                place[2] for place in before.queues[queue] if (queue, place[0]) not in self.taken
            ]
            ours = [name for name in row if name in line]
            assert ours == sorted(ours, key=line.index), f"{row} of {queue} lost their order"

    def _judge_prefix(self, command: Command, after: State) -> None:
        there = after.numbers(command.queue)
        line = [seq for seq in command.numbers if (command.queue, seq) not in self.taken]
        gone = [seq for seq in line if seq not in there]
        assert gone == line[: len(gone)], f"{gone} of {line} were taken"

    def judge_delivery(self, reader: Judged, entry: Entry) -> None:
        """Judge who gets what."""
        self.deliveries += 1
        queue, group = reader.queue, entry.lane.name
        assert isinstance(queue, Queue)
        body = entry.content.neutral().body.decode()
        assert self.names.setdefault((queue.name, entry.seq), body) == body
        if not group:
            return
        factory = self.broker.host.queue_factory
        assert group not in factory.parked.of(queue.name), f"{body} went, and {group} is parked"
        assert group not in factory.dying.of(queue.name), f"{body} went, and {group} is dying"
        for other in queue.state.index:
            if other.lane is entry.lane and other is not entry:
                assert other.holder in (None, reader), f"{group} is held by two"
                is_before = other.seq < entry.seq and other.state == PENDING
                assert not is_before, f"{body} went before {other.seq}"

    # Consumers.

    def join(self, queue: str, credit: int) -> None:
        """Let a consumer in."""
        reader = Judged(Window(credit))
        reader.life = self
        self.broker.host.queue(queue).join(reader, self.now)
        self.readers.append(reader)

    def leave(self, reader: Judged) -> None:
        """Let a consumer go."""
        self.readers.remove(reader)
        if reader.queue is not None:
            reader.queue.leave(reader, self.now)
