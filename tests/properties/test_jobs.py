"""Long work in random portions, with others at work between them, ends as if done at once.

Two brokers get the same queues, messages and readers. In one, something big is done at once, and
then somebody sends. In the other it goes in portions of a few items, and the same sends come in
between. In the end both hold the same: each queue its messages in order, each reader what it holds.
A failure names its seed and the work, and `play(seed, work, ...)` plays it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from covey.core.host.attachment import Disconnect
from covey.core.host.subscription import Subscription
from covey.core.management.admin import Admin
from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import GONE, STATE_NAMES, Entry, Outcome
from covey.core.queue.acceptance import Acceptance
from tests.core.double import Person, Room, letter, places
from tests.core.storage.sqlite.support import ADMIN
from tests.doubles import Reader
from tests.properties.seeds import first_seed

SEEDS = int(os.environ.get("COVEY_SEQUENCES", "2000")) // 100
ALL = 10**6
QUEUES = 4

Held = list[tuple[object, str, str]]  # of each message its name, its group and its state


class House(Room):
    """A broker with a few queues, filled by chance, and somebody who reads from all of them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.broker.jobs.portion = ALL
        self.dice = Random(seed)
        self.sender, self.other = self.enter(), self.enter()
        self.reading = self.enter()
        for number in range(self.dice.randrange(5, 40)):
            self.post(self.sender, f"{number}")

    def read(self, person: Person, credit: int) -> None:
        """Let somebody read from all queues, and hold what it gets."""
        window = Window(credit)
        session = person.session
        subscription = Subscription(session, "s", window, lambda: Reader(window, session))
        self.broker.subscribe(session, subscription, places("/queue/q.*"), self.now)
        self.broker.run(self.now)

    @property
    def held(self) -> list[tuple[Consumer, list[Entry]]]:
        """Tell what the reader holds of each queue."""
        consumers = self.reading.session.subscriptions["s"].consumers
        return [(each, list(each.unsettled.values())) for each in consumers]

    def post(self, person: Person, name: str) -> None:
        group = self.dice.choice(["", "x", "y"])
        person.send(f"/queue/q.{self.dice.randrange(QUEUES)}", name, group=group)

    def transaction(self) -> None:
        """Let the reader send and settle together."""
        begun = self.broker.transactions.begin(self.reading.session, "t")
        for number in range(self.dice.randrange(1, 25)):
            target = places(f"/queue/q.{self.dice.randrange(QUEUES)}")
            begun.send(target, letter(f"t{number}", group=self.dice.choice(["", "x"])))
        for entry in [entry for _, row in self.held for entry in row]:
            begun.settle(entry, self.dice.choice(list(Outcome)[:4]), self.now)

    def finish(self) -> None:
        self.broker.go_on(self.now)
        while self.broker.jobs.is_any or self.broker.turns.is_any_dirty:
            self.broker.go_on(self.now)

    def found(self) -> dict[str, Held]:
        """Tell what every queue holds, in order."""
        found: dict[str, Held] = {}
        for name, queue in sorted(self.broker.host.queues.items()):
            found[name] = [
                (entry.content.lookup("name"), entry.lane.name, STATE_NAMES[entry.state])
                for entry in queue.state.index
                if entry.state != GONE
            ]
        return found


def _purge(house: House) -> None:
    name = min(house.broker.host.queues)
    Admin(house.broker, house.broker.host, ADMIN).purge(name, house.now)


def _accept(house: House) -> None:
    house.broker.jobs.begin(Acceptance(house.reading.session, house.held))


def _leave(house: House) -> None:
    house.broker.unsubscribe(house.reading.session, "s", house.now)


def _go(house: House) -> None:
    house.broker.drop(house.reading.session, house.now)


def _commit(house: House) -> None:
    house.broker.transactions.commit(house.reading.session, "t", house.now)


def _abort(house: House) -> None:
    house.broker.transactions.abort(house.reading.session, "t", house.now)


def _subscribe(house: House) -> None:
    house.read(house.reading, ALL)


# What is done; what a reader has done before: nothing, read, or read and begun a transaction.
WORK: dict[str, tuple[Callable[[House], None], str]] = {
    "purge": (_purge, "read"),
    "accept": (_accept, "read"),
    "unsubscribe": (_leave, "read"),
    "disconnect": (_go, "read"),
    "commit": (_commit, "begun"),
    "abort": (_abort, "begun"),
    "disconnect amid a transaction": (_go, "begun"),
    "subscribe": (_subscribe, ""),
}


def play(seed: int, work: str, *, in_portions: bool) -> dict[str, Held]:
    """Do a piece of work, then or meanwhile let somebody send; tell what is left."""
    house = House(seed)
    act, before = WORK[work]
    if before:
        house.read(house.reading, house.dice.randrange(1, 40))
    if before == "begun":
        house.transaction()
    pace = Random(seed + 1)
    house.broker.jobs.portion = pace.randrange(1, 6) if in_portions else ALL
    act(house)
    if not in_portions:
        house.finish()
    for number in range(house.dice.randrange(10)):
        for _ in range(pace.randrange(3) if in_portions else 0):
            house.broker.go_on(house.now)
        house.post(house.other, f"later {number}")
    house.finish()
    return house.found()


def _kind(name: object) -> str:
    """Say whose a message is."""
    return str(name)[0] if str(name)[0] in "tl" else "first"


def _by_sender(found: dict[str, Held]) -> dict[tuple[str, str], Held]:
    """Take apart what several have sent: only each one's own order is promised."""
    senders: dict[tuple[str, str], Held] = {}
    for queue, held in found.items():
        for message in held:
            name, group, _ = message  # who gets one depends on which comes first
            senders.setdefault((queue, _kind(name)), []).append((name, group, ""))
    return senders


@pytest.mark.parametrize("work", WORK)
def test_work_in_portions_ends_as_if_it_were_done_at_once(work: str) -> None:
    for seed in range(first_seed(), first_seed() + SEEDS):
        at_once = play(seed, work, in_portions=False)
        portions = play(seed, work, in_portions=True)
        if work == "commit":
            assert _by_sender(portions) == _by_sender(at_once), f"seed {seed}"
        else:
            assert portions == at_once, f"seed {seed}"


def test_most_of_it_needs_more_than_one_portion() -> None:
    house = House(3)
    house.read(house.reading, ALL)
    house.broker.jobs.portion = 1
    _go(house)
    assert any(isinstance(job, Disconnect) for job in house.broker.jobs.running())
