"""Duplicates: what was sent twice enters once, restarts included."""

from __future__ import annotations

from pathlib import Path

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.model.message import Message
from covey.core.naming.destination import Destination, Kind
from covey.core.queue import discipline as module
from covey.core.queue.discipline import Duplicates, digest
from covey.core.queue.policy import change_policy
from tests.core.double import Room, places
from tests.core.storage.sqlite.support import House, Note, bodies
from tests.core.support import depth
from tests.doubles import HeldStore


class Named(Note):
    """A note with a client's own id."""

    def __init__(self, name: str, *, persistent: bool = True) -> None:
        super().__init__(name.encode(), persistent=persistent)
        self.name = name

    def message_id(self) -> str:
        return self.name


def house_of(directory: Path, window: int = 3) -> House:
    return House(directory, Settings(queue=(QueueSettings(id="a", duplicate_window=window),)))


def send(house: House, *names: str, persistent: bool = True) -> None:
    for name in names:
        house.publish("a", Named(name, persistent=persistent), name)
    house.rest()


def contents(house: House) -> list[bytes]:
    reader = house.reader("a")
    house.rest()
    return bodies(reader)


def test_a_duplicate_is_receipted_and_dropped_and_counted(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "x", "y", "x")
    assert house.receipts == ["x", "y", "x"]
    assert house.queue("a").counters.duplicates == 1
    assert contents(house) == [b"x", b"y"]
    house.store.close()


def test_an_id_is_known_after_its_message_was_consumed(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "x")
    reader = house.reader("a")
    house.rest()
    house.settle(reader.entries[0])
    send(house, "x")
    assert depth(house.queue("a")) == 0
    house.store.close()


def test_the_window_is_a_number_of_messages(tmp_path: Path) -> None:
    house = house_of(tmp_path, window=2)
    send(house, "x", "y", "z", "x", "z")
    assert contents(house) == [b"x", b"y", b"z", b"x"]
    house.store.close()


def test_messages_without_an_id_are_never_duplicates(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "", "")
    assert depth(house.queue("a")) == 2
    house.store.close()


def test_ids_of_persistent_messages_survive_a_restart(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "kept")
    send(house, "lost", persistent=False)
    house = house.restart()
    send(house, "kept", "lost")
    assert contents(house) == [b"kept", b"lost"]
    assert house.queue("a").counters.duplicates == 1
    house.store.close()


def test_a_duplicate_in_one_transaction_is_found(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    transaction = house.broker.transactions.begin(house.session, "t")
    for _ in range(2):
        transaction.send(house_targets(), Named("x"))
    house.broker.transactions.commit(house.session, "t", 0.0)
    house.rest()
    assert depth(house.queue("a")) == 1
    house.store.close()


def house_targets() -> tuple[Destination, ...]:
    return (Destination(Kind.QUEUE, "a"),)


def test_one_that_a_full_queue_dropped_may_come_again(tmp_path: Path) -> None:
    settings = QueueSettings(id="a", duplicate_window=9, quota_messages=1, full_policy="drop tail")
    house = House(tmp_path, Settings(queue=(settings,)))
    send(house, "x", "y")
    reader = house.reader("a")
    house.rest()
    house.settle(reader.entries[0])
    send(house, "y")
    assert [entry.seq for entry in reader.entries] == [1, 2]
    house.store.close()


def test_a_duplicate_does_not_wait_for_room(tmp_path: Path) -> None:
    settings = QueueSettings(id="a", duplicate_window=9, quota_messages=1)
    house = House(tmp_path, Settings(queue=(settings,)))
    send(house, "x", "x")
    assert house.receipts == ["x", "x"] and not house.session.is_blocked
    house.store.close()


def test_a_duplicate_drops_no_head_of_a_full_ring(tmp_path: Path) -> None:
    settings = QueueSettings(id="a", duplicate_window=9, quota_messages=2, full_policy="drop head")
    house = House(tmp_path, Settings(queue=(settings,)))
    send(house, "x", "y", "y")
    assert contents(house) == [b"x", b"y"]
    house.store.close()


def test_the_store_forgets_what_the_window_has_passed(tmp_path: Path) -> None:
    house = house_of(tmp_path, window=2)
    send(house, *[str(number) for number in range(module.PRUNE_EVERY + 10)])
    house = house.restart()
    assert len(list(house.store.ids())) < 20
    names = [str(number) for number in (module.PRUNE_EVERY + 8, module.PRUNE_EVERY + 9)]
    send(house, *names)
    assert house.queue("a").counters.duplicates == 2
    house.store.close()


def test_a_queue_that_remembers_is_not_swept_and_a_deleted_one_forgets(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "x")
    reader = house.reader("a")
    house.rest()
    house.settle(reader.entries[0])
    house.queue("a").leave(reader, 0.0)
    house.rest()
    for second in (100.0, 200.0):
        house.broker.tick(second)
    assert "a" in house.host.queues
    house.host.delete_queue("a", "test")
    house.rest()
    house = house.restart()
    send(house, "x")
    assert depth(house.queue("a")) == 1
    house.store.close()


def test_a_smaller_window_forgets_at_once_and_none_forgets_all(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "x", "y", "z")
    queue = house.queue("a")
    limits = house.broker.limits
    change_policy(queue, QueueSettings(id="a", duplicate_window=1), limits, 0.0)
    send(house, "x", "z")
    assert queue.counters.duplicates == 0  # x pushed z out of a window of one
    change_policy(queue, QueueSettings(id="a"), limits, 0.0)
    send(house, "z")
    assert queue.counters.duplicates == 0
    house.store.close()


def test_a_queue_that_remembers_again_begins_anew(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "1", "2", "3")
    for window in (0, 3):
        policy = QueueSettings(id="a", duplicate_window=window)
        change_policy(house.queue("a"), policy, house.broker.limits, house.now)
    send(house, "1", "4")
    assert house.receipts == ["1", "2", "3", "1", "4"]
    house = house.restart()
    send(house, "2", "1")
    assert contents(house) == [b"1", b"2", b"3", b"1", b"4", b"2"]
    house.store.close()


def test_a_queue_that_was_deleted_and_is_back_remembers_its_own(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    send(house, "1", "2")
    house.host.delete_queue("a", "deleted")
    send(house, "1")  # the same commit
    house = house.restart()
    send(house, "2", "1")
    assert contents(house) == [b"1", b"2"]
    house.store.close()


def test_an_id_of_any_length_costs_the_same() -> None:
    known = Duplicates(10)
    message: Message = Named("x" * 10_000)
    added = known.add(message)
    assert added is not None and len(added[1]) == module.DIGEST_BYTES
    assert known.holds(Named("x" * 10_000)) and not known.holds(Named("x" * 9_999))


def test_a_duplicate_is_confirmed_after_the_first_of_them_is_on_disk() -> None:
    store = HeldStore()
    room = Room(QueueSettings(id="a", duplicate_window=10), store=store)
    confirmed: list[str] = []
    for name, person in (("first", room.enter()), ("again", room.enter())):

        def confirm(name: str = name) -> None:
            confirmed.append(name)

        room.broker.publishing.publish(person.session, places("/queue/a"), Named("x"), confirm)
        room.broker.run(room.now)
    assert room.broker.host.queues["a"].counters.duplicates == 1
    assert confirmed == [], "whoever sends it again has lost the answer, not the message"
    store.write()
    assert confirmed == ["first", "again"]


def test_ids_are_known_for_a_time_and_no_longer() -> None:
    known = Duplicates(1000, 60.0)
    for second in range(100):
        known.add(Named(f"m{second}"), float(second))
    assert [known.holds(Named(name), 100.0) for name in ("m38", "m41", "m99")] == [
        False,
        True,
        True,
    ]
    assert known.count == 60
    assert not known.holds(Named("m99"), 161.0)  # though nothing came meanwhile


def test_the_number_and_the_time_hold_both() -> None:
    known = Duplicates(2, 60.0)
    for name in ("x", "y", "z"):
        known.add(Named(name), 0.0)
    assert [known.holds(Named(name), 1.0) for name in ("x", "y", "z")] == [False, True, True]
    known.resize(2)
    assert known.holds(Named("z"), 1e6)
    known.resize(2, 5.0)
    assert known.holds(Named("z"), 1e6)  # its time begins when somebody looks at it
    assert not known.holds(Named("z"), 1e6 + 6)


def test_the_time_of_what_a_restart_found_begins_anew_and_the_store_forgets() -> None:
    known = Duplicates(100_000, 60.0)
    for number in range(1, 2001):
        known.restore(number, digest(f"m{number}"))
    assert known.holds(Named("m1"), 5000.0)
    assert not known.holds(Named("m1"), 5061.0)
    known.add(Named("new"), 5061.0)
    assert known.take_outdated() == 2001


def test_a_queue_with_a_time_alone_drops_duplicates(tmp_path: Path) -> None:
    house = House(tmp_path, Settings(queue=(QueueSettings(id="a", duplicate_window_s=60),)))
    send(house, "x", "y", "x")
    assert house.queue("a").counters.duplicates == 1
    house.store.close()
