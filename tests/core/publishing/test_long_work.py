"""A long commit goes in portions: checked whole first, one commit on disk, and it always ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management.admin import Admin
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.session import Session
from tests.core.double import Room, letter, places
from tests.core.queue.test_timers_delayed import late
from tests.core.storage.sqlite.support import ADMIN, House, Note, bodies, snapshot
from tests.core.support import depth
from tests.doubles import Events, Listener, OneForAll

PORTION = 3


class Bureau(House):
    """A broker with a store, that does three items a portion."""

    def __init__(self, directory: Path, settings: Settings | None = None) -> None:
        super().__init__(directory, settings)
        self.broker.jobs.allow(PORTION, 5.0, 10**6)
        self.session.client = Listener()
        self.told: list[str] = []

    def begin(self, count: int, queue: str = "a", first: int = 1) -> None:
        """Begin the COMMIT of so many messages: its first portion is done."""
        begun = self.broker.transactions.begin(self.session, "t")
        for number in range(first, first + count):
            begun.send((Destination(Kind.QUEUE, queue),), Note(f"{number}".encode()))
        self.commit()

    def commit(self) -> None:
        self.broker.transactions.commit(self.session, "t", self.now, lambda: self.told.append("t"))

    def put(self, count: int) -> None:
        """Go on until so many messages of the transaction are in queues."""
        while sum(depth(queue) for queue in self.host.all_queues()) < count:
            self.broker.go_on(self.now)

    def finish(self) -> None:
        """Do all that is under way."""
        self.rest()
        while self.broker.jobs.is_any:
            self.broker.go_on(self.now)
            self.rest()

    def found(self, name: str = "a") -> list[bytes]:
        """Read a queue whole."""
        reader = self.reader(name)
        self.rest()
        return bodies(reader)

    def killed(self, directory: Path) -> Bureau:
        """Return what a start finds after a kill at this moment."""
        copy = snapshot(self.directory, directory)
        self.store.close()
        return Bureau(copy, self.settings)


def numbers(first: int, last: int) -> list[bytes]:
    return [f"{number}".encode() for number in range(first, last + 1)]


def test_its_client_waits_and_is_told_when_all_of_it_is_safe(tmp_path: Path) -> None:
    house = Bureau(tmp_path)
    reader = house.reader("a")
    house.begin(10)
    house.put(10)
    assert (house.told, house.session.must_wait, reader.got) == ([], True, [])
    assert [job.verb for job in house.broker.jobs.running()] == ["commit"]
    house.finish()
    assert (house.told, house.session.must_wait) == (["t"], False)
    assert bodies(reader) == numbers(1, 10)
    assert house.session.transactions == {}
    house.store.close()


def test_nobody_else_waits_for_it_and_a_kill_leaves_nothing_of_it(tmp_path: Path) -> None:
    house = Bureau(tmp_path / "1")
    house.begin(10)
    house.put(6)
    house.send("a", b"other", receipt="other")
    house.rest()
    assert (house.receipts, house.told) == (["other"], [])
    house = house.killed(tmp_path / "2")
    assert house.found() == [b"other"]
    house.store.close()


def test_a_kill_after_it_was_confirmed_leaves_all_of_it(tmp_path: Path) -> None:
    house = Bureau(tmp_path / "1")
    house.begin(10)
    house.finish()
    assert house.told == ["t"]
    house = house.killed(tmp_path / "2")
    assert house.found() == numbers(1, 10)
    house.store.close()


def test_its_settlements_and_dead_letters_are_of_the_same_batch(tmp_path: Path) -> None:
    settings = Settings(queue=(QueueSettings(id="in", dlq="dead"),))
    for is_killed in (True, False):
        directory = tmp_path / str(is_killed)
        house = Bureau(directory / "1", settings)
        for number in range(8):
            house.send("in", f"{number}".encode())
        reader = house.reader("in")
        house.rest()
        begun = house.broker.transactions.begin(house.session, "t")
        begun.send((Destination(Kind.QUEUE, "out"),), Note(b"answer"))
        for number, entry in enumerate(reader.entries):
            outcome = Outcome.REJECTED if number % 2 else Outcome.ACCEPTED
            begun.settle(entry, outcome, house.now)
        house.commit()
        while depth(house.queue("in")) > 2:
            house.broker.go_on(house.now)
        if not is_killed:
            house.finish()
        house = house.killed(directory / "2")
        left = (depth(house.queue("in")), depth(house.queue("dead")), depth(house.queue("out")))
        assert left == ((8, 0, 0) if is_killed else (0, 4, 1))
        house.store.close()


def test_what_is_refused_in_a_later_portion_leaves_nothing_and_is_told() -> None:
    room = Room(QueueSettings(id="a", quota_messages=5, full_policy="reject"))
    room.broker.jobs.allow(PORTION, 5.0, 10**6)
    person = room.enter()
    begun = room.broker.transactions.begin(person.session, "t")
    for number in range(9):
        begun.send(places("/queue/a"), letter(str(number)))
    told: list[str] = []
    room.broker.transactions.commit(
        person.session, "t", room.now, None, lambda error: told.append(error.code)
    )
    assert person.session.must_wait
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    assert (told, room.depth("a"), person.session.transactions) == (["full"], 0, {})
    assert not person.session.must_wait


def test_what_is_refused_at_once_is_raised() -> None:
    room = Room(limits={"auto_create": False})
    room.broker.jobs.allow(PORTION, 5.0, 10**6)
    session = room.enter().session
    begun = room.broker.transactions.begin(session, "t")
    for number in range(9):
        begun.send(places("/queue/a"), letter(str(number)))
    with pytest.raises(RefusedError, match="there is no queue a"):
        room.broker.transactions.commit(session, "t", room.now)
    assert (session.transactions, session.must_wait) == ({}, False)


def test_the_room_that_it_needs_is_its_own_from_the_moment_it_was_found_good() -> None:
    room = Room(QueueSettings(id="a", quota_messages=10, full_policy="reject"))
    room.broker.jobs.allow(PORTION, 5.0, 10**6)
    person, other = room.enter(), room.enter()
    begun = room.broker.transactions.begin(person.session, "t")
    for number in range(9):
        begun.send(places("/queue/a"), letter(str(number)))
    room.broker.transactions.commit(person.session, "t", room.now)
    while room.depth("a") < 3:
        room.broker.go_on(room.now)
    assert other.send("/queue/a", "fits") == ["fits"]
    with pytest.raises(RefusedError, match="is full"):
        other.send("/queue/a", "does not")
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    queue = room.broker.host.queues["a"]
    assert (room.depth("a"), queue.promised, queue.promised_size) == (10, 0, 0)


def test_it_waits_for_room_in_line_and_goes_on_when_there_is(tmp_path: Path) -> None:
    room = Room(QueueSettings(id="a", quota_messages=5))
    room.broker.jobs.allow(PORTION, 5.0, 10**6)
    person, reading = room.enter(), room.enter()
    reader = reading.read("/queue/a")
    for number in range(3):
        person.send("/queue/a", str(number))
    begun = room.broker.transactions.begin(person.session, "t")
    for number in range(5):
        begun.send(places("/queue/a"), letter(f"t{number}"))
    done: list[str] = []
    room.broker.transactions.commit(person.session, "t", room.now, lambda: done.append("t"))
    for _ in range(10):
        room.broker.go_on(room.now)
    assert (done, person.session.is_blocked, room.depth("a")) == ([], True, 3)
    reading.settle(reader)
    for _ in range(10):
        room.broker.go_on(room.now)
    assert (done, person.session.must_wait) == (["t"], False)
    assert reader.names[3:] == ["t0", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_client_that_goes_stops_it_only_before_it_was_found_good(is_late: bool) -> None:
    room = Room()
    room.broker.jobs.allow(PORTION, 5.0, 10**6)
    person, other = room.enter(), room.enter()
    reader = person.read("/queue/in")
    for number in range(4):
        other.send("/queue/in", str(number))
    begun = room.broker.transactions.begin(person.session, "t")
    for number in range(9):
        begun.send(places("/queue/a"), letter(str(number)))
    for entry in reader.entries:
        begun.settle(entry, Outcome.ACCEPTED, room.now)
    room.broker.transactions.commit(person.session, "t", room.now)
    while is_late and room.depth("a") < 3:
        room.broker.go_on(room.now)
    room.broker.drop(person.session, room.now)
    while room.broker.jobs.is_any:
        room.broker.go_on(room.now)
    assert (room.depth("a"), room.depth("in")) == ((9, 0) if is_late else (0, 4))
    assert other.read("/queue/in").names == ([] if is_late else ["0", "1", "2", "3"])


def test_a_purge_takes_what_was_put_so_far_and_a_restart_does_not_bring_it_back(
    tmp_path: Path,
) -> None:
    house = Bureau(tmp_path / "1")
    house.begin(9)
    house.put(5)
    put = depth(house.queue("a"))
    Admin(house.broker, house.host, ADMIN).purge("a", house.now)
    house.finish()
    assert house.told == ["t"]
    assert depth(house.queue("a")) == 9 - put
    house = house.killed(tmp_path / "2")
    assert house.found() == numbers(put + 1, 9)
    house.store.close()


def test_a_queue_that_is_deleted_takes_along_what_it_got(tmp_path: Path) -> None:
    house = Bureau(tmp_path / "1")
    house.begin(9)
    house.put(5)
    put = depth(house.queue("a"))
    Admin(house.broker, house.host, ADMIN).delete("queue", "a", house.now)
    house.finish()
    assert house.told == ["t"]
    house = house.killed(tmp_path / "2")
    assert house.found() == numbers(put + 1, 9)
    house.store.close()


def test_a_message_whose_time_comes_meanwhile_is_still_a_part_of_it(tmp_path: Path) -> None:
    house = Bureau(tmp_path / "1")
    begun = house.broker.transactions.begin(house.session, "t")
    begun.send((Destination(Kind.QUEUE, "a"),), late(b"late", 5.0))
    for number in range(1, 9):
        begun.send((Destination(Kind.QUEUE, "b"),), Note(f"{number}".encode()))
    reader = house.reader("a")
    house.commit()
    while depth(house.queue("b")) < 3:
        house.broker.go_on(house.now)
    house.now = 6.0
    house.broker.tick(house.now)
    house.rest()
    assert (depth(house.queue("a")), reader.got) == (1, [])
    copy = snapshot(house.directory, tmp_path / "2")
    house.finish()
    assert bodies(reader) == [b"late"]
    killed = Bureau(copy)
    assert (killed.found("a"), killed.queue("a").timers.delayed.count) == ([], 0)
    killed.store.close()
    house = house.killed(tmp_path / "3")
    assert (house.found("a"), house.found("b")) == ([b"late"], numbers(1, 8))
    house.store.close()


class Named(Note):
    """A message with an id."""

    def message_id(self) -> str:
        return self.body.decode()


def test_who_is_told_that_a_message_of_it_is_a_duplicate_waits_for_it(tmp_path: Path) -> None:
    settings = Settings(queue=(QueueSettings(id="a", duplicate_window=100),))
    house = Bureau(tmp_path, settings)
    begun = house.broker.transactions.begin(house.session, "t")
    for number in range(9):
        begun.send((Destination(Kind.QUEUE, "a"),), Named(f"{number}".encode()))
    house.commit()
    house.put(3)
    other = house.broker.open(house.host, ADMIN, house.now)
    told: list[str] = []
    _publish(house, other, "a", b"0", told)
    _publish(house, other, "b", b"x", told)
    house.rest()
    assert told == []
    house.finish()
    assert (told, depth(house.queue("a"))) == (["0", "x"], 9)
    house.store.close()


def _publish(house: House, session: Session, queue: str, body: bytes, told: list[str]) -> None:
    target = (Destination(Kind.QUEUE, queue),)
    name = body.decode()
    house.broker.publishing.publish(session, target, Named(body), lambda: told.append(name))
    house.broker.run(house.now, session)


class Told(OneForAll):
    """A log of events that were told, as a number."""

    def __init__(self) -> None:
        super().__init__(Events())
        self.last = 7

    def hand_over(self) -> int:
        return self.last


def test_the_event_log_s_position_does_not_pass_what_is_not_on_the_disk(tmp_path: Path) -> None:
    house = Bureau(tmp_path)
    log = Told()
    house.broker.listen(log)
    commits = house.broker.commits
    house.begin(9)
    house.put(3)
    log.last = 8
    house.send("b", b"other")
    house.rest()
    assert commits.position == 7
    house.finish()
    assert commits.position == 8
    house.store.close()
