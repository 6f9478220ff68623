"""Long work in random portions, with others at work between them, ends as if done at once.

Two brokers get the same queues, messages and readers. In one, something big is done at once, and
then somebody sends. In the other it goes in portions of a few items, and the same sends come in
between. In the end both hold the same: each queue its messages in order, each reader what it holds.
A failure names its seed and the work, and `play(seed, work, ...)` plays it again.

A topic with many listeners meets them in portions, and its messages go to them in portions. Several
send to a few topics, alone or together, while listeners come and go. Whoever was there all the time
gets all of them, and everybody gets the messages of one topic in one order.
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
from tests.core.host.counted import check_counts
from tests.core.storage.sqlite.support import ADMIN
from tests.core.support import selector_of
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
        consumers = self.reading.session.subscriptions["s"].consumers.values()
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
            check_counts(self.broker)
            self.broker.go_on(self.now)
        check_counts(self.broker)

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


TOPICS = 3
WISHES = ("/topic/t.*", "/topic/**", "/topic/t.0", "/topic/t.1,/topic/t.2", "/topic/t.*,/topic/t.0")


class Hall(Room):
    """A broker with a few topics, people who send to them, and listeners of all kinds."""

    def __init__(self, seed: int, *, in_portions: bool) -> None:
        super().__init__()
        self.dice = Random(seed)
        self.sent: dict[str, list[str]] = {}  # names by topic
        self.readers: list[tuple[str, Reader]] = []  # those that were there from the beginning
        self.kept: dict[str, str] = {}  # the same, for durable subscriptions
        self.late: list[Reader] = []
        self.done: list[list[str]] = []
        for _ in range(self.dice.randrange(12)):
            wish = self.dice.choice(WISHES)
            self.readers.append((wish, self.enter().read(wish)))
        for number in range(self.dice.randrange(12)):
            self.keep(f"d{number}", self.dice.choice(WISHES))
        self.finish()
        self.broker.jobs.portion = self.dice.randrange(1, 6) if in_portions else ALL
        self.people = [self.enter() for _ in range(3)]

    def keep(self, name: str, wish: str) -> None:
        person = self.enter().session
        selector = selector_of(self.dice.choice(["", "", "name < 's1.5'"]))
        self.broker.make_durable(person, name, places(wish), selector, self.now)
        if selector is None:
            self.kept[name] = wish

    def send(self, number: int, count: int) -> None:
        """Let somebody send, if it need not wait: to one topic, or to several and a queue."""
        person = self.people[number]
        if person.session.must_wait:
            return
        topics = self.dice.sample(range(TOPICS), self.dice.choice([1, 1, 1, 2]))
        name = f"s{number}.{count}"
        for topic in topics:
            self.sent.setdefault(f"t.{topic}", []).append(name)
        targets = [f"/topic/t.{topic}" for topic in topics] + ["/queue/q"][: len(topics) - 1]
        if self.dice.random() < 0.3:
            begun = self.broker.transactions.begin(person.session, name)
            begun.send(places(",".join(targets)), letter(name))
            told: list[str] = []
            commit = self.broker.transactions.commit
            commit(person.session, name, self.now, lambda: told.append(name))
            self.done.append(told)
        else:
            self.done.append(person.send(",".join(targets), name))

    def stir(self) -> None:
        """Let a listener come, go, or wish for something else; or let a topic go."""
        what = self.dice.randrange(6)
        if what == 0:
            self.late.append(self.enter().read(self.dice.choice(WISHES)))
        elif what == 1 and self.readers:
            _, reader = self.readers.pop(self.dice.randrange(len(self.readers)))
            self.broker.drop(reader.session, self.now)
        elif what == 2 and self.kept:
            name = self.dice.choice(sorted(self.kept))
            del self.kept[name]
            self.broker.host.delete_durable(name)
        elif what == 3:
            self.broker.make_durable(
                self.enter().session, "late", places(self.dice.choice(WISHES)), None, self.now
            )
        elif what == 4 and self.kept:
            name = self.dice.choice(sorted(self.kept))
            del self.kept[name]
            self.broker.make_durable(
                self.enter().session, name, places("/topic/t.2"), None, self.now
            )
        elif what == 5:
            self.broker.host.delete_topic(f"t.{self.dice.randrange(TOPICS)}")

    def finish(self) -> None:
        self.broker.go_on(self.now)
        while self.broker.jobs.is_any or self.broker.turns.is_any_dirty:
            check_counts(self.broker)
            self.broker.go_on(self.now)
        check_counts(self.broker)

    def heard(self) -> tuple[list[tuple[str, list[str]]], list[list[str]]]:
        """Tell what those have that were always there, with their wishes; and what others have."""
        always = [(wish, [str(name) for name in reader.names]) for wish, reader in self.readers]
        others = [[str(name) for name in reader.names] for reader in self.late]
        for name, durable in self.broker.host.durables.items():
            held = [str(entry.content.lookup("name")) for entry in durable.queue.state.index]
            if name in self.kept:
                always.append((self.kept[name], held))
            else:
                others.append(held)
        return always, others


def _meant(wish: str) -> set[str]:
    if "*" in wish:
        return {f"t.{number}" for number in range(TOPICS)}
    return {place.removeprefix("/topic/") for place in wish.split(",")}


@pytest.mark.parametrize("in_portions", [True, False])
def test_all_who_listen_to_a_topic_hear_all_of_it_in_one_order(*, in_portions: bool) -> None:
    for seed in range(first_seed(), first_seed() + 5 * SEEDS):
        hall = Hall(seed, in_portions=in_portions)
        for count in range(hall.dice.randrange(20)):
            hall.send(hall.dice.randrange(3), count)
            if hall.dice.random() < 0.2:
                hall.stir()
            for _ in range(hall.dice.randrange(4)):
                hall.broker.go_on(hall.now)
        hall.finish()
        assert all(hall.done), f"seed {seed}"
        assert not any(person.session.must_wait for person in hall.people), f"seed {seed}"
        always, others = hall.heard()
        orders: dict[str, list[str]] = {}
        for topic, sent in hall.sent.items():
            for wish, names in always:
                if topic not in _meant(wish):
                    continue
                expected = [name for each in _meant(wish) for name in hall.sent.get(each, [])]
                assert sorted(names) == sorted(expected), f"seed {seed}"
                # A message to several topics comes once for each of them, which one is not said.
                only = [name for name in names if name in sent and _times(hall, name) == 1]
                assert orders.setdefault(topic, only) == only, f"seed {seed}"
                for sender in range(3):
                    own = [name for name in only if name.startswith(f"s{sender}.")]
                    assert own == sorted(own, key=_number), f"seed {seed}"
            for names in others:
                only = [name for name in names if name in sent and _times(hall, name) == 1]
                order = orders.get(topic, only)
                assert only == [name for name in order if name in only], f"seed {seed}"


def _times(hall: Hall, name: str) -> int:
    return sum(name in sent for sent in hall.sent.values())


def _number(name: str) -> int:
    return int(name.partition(".")[2])
