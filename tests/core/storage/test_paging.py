"""Paging: a backlog larger than the window, out of memory and back in order."""

from __future__ import annotations

import random
import sqlite3
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import Settings
from covey.core.model.consumer import Window
from covey.core.model.entry import Entry, Outcome
from covey.core.publishing.arrivals import restore
from covey.core.queue.owner import Unowned
from covey.core.queue.policy import strategy_of
from covey.core.queue.queue import Queue
from covey.core.selector import compile_selector
from covey.core.storage import paging
from covey.core.storage import paging as page
from covey.core.storage.store import MessageRecord
from covey.groups.key import GroupKey
from tests.core.storage.sqlite.support import House, Note, small_windows
from tests.core.support import Reader

BODY = b"x" * 100
WINDOW = 10 * len(BODY)


entries_max = 50_000  # `small_pages` sets it for each test


@pytest.fixture(autouse=True, params=[50_000, 0], ids=["", "packed"])
def small_pages(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Pages so small that a short test turns many of them; again with everything packed."""
    monkeypatch.setattr(sys.modules[__name__], "entries_max", request.param)
    monkeypatch.setattr(page, "PAGE_MESSAGES", 8)
    monkeypatch.setattr(paging, "LOADED_MIN", 16)
    monkeypatch.setattr(paging, "SPILL_MESSAGES", 1)


def windows(queue: int, total: int) -> Settings:
    return small_windows(queue, total, entries_max)


def filled(house: House, count: int, *, groups: int = 0, persistent: bool = True) -> list[bytes]:
    sent = [b"%08d" % number + BODY for number in range(count)]
    for number, body in enumerate(sent):
        group = f"g{number % groups}" if groups else ""
        house.send("a", body, group, persistent=persistent)
        if number % 7 == 0:
            house.rest()
    house.rest()
    return sent


def drain(house: House, reader: Reader) -> list[bytes]:
    """Settle everything as it comes, until nothing comes any more."""
    got: list[bytes] = []
    while True:
        house.rest()
        fresh, reader.entries = reader.entries, []
        if not fresh:
            return got
        for entry in fresh:
            got.append(entry.content.neutral().body)
            house.settle(entry)
            reader.window.grant(1, 0)


def resident(house: House) -> int:
    return sum(entry.size for entry in house.queue("a").state.index if entry.message is not None)


def check_counts(house: House) -> None:
    storage_state = house.queue("a").storage_state
    entries = list(house.queue("a").state.index)
    assert storage_state.resident == resident(house)
    assert storage_state.out == sum(entry.message is None for entry in entries)
    assert house.broker.commits.pager is not None
    assert house.broker.commits.pager.bodies.total == storage_state.resident


@pytest.mark.parametrize("groups", [0, 1, 3])
@pytest.mark.parametrize("persistent", [True, False])
def test_backlog_beyond_the_window_is_out_of_memory_and_comes_back_in_order(
    tmp_path: Path, groups: int, persistent: bool
) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 200, groups=groups, persistent=persistent)
    check_counts(house)
    assert resident(house) <= WINDOW + 2 * (len(BODY) + 8)
    got = drain(house, house.reader("a", 5))
    if groups <= 1:
        assert got == sent
    for group in range(groups):
        of_group = [body for body in got if int(body[:8]) % groups == group]
        assert of_group == sent[group::groups]
    assert house.queue("a").storage_state.out == house.queue("a").storage_state.resident == 0
    house.store.close()


def test_message_that_was_out_is_not_delivered_after_its_time_even_within_its_second(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    for number in range(40):
        note = Note(b"%08d" % number + BODY)
        note.expires_ms = 5_100 if number % 2 else 5_900
        house.publish("a", note)
        house.rest()
    assert house.queue("a").storage_state.out > 20
    house.now = 5.5
    got = drain(house, house.reader("a", 40))
    assert [int(body[:8]) for body in got] == list(range(0, 40, 2))
    assert house.queue("a").counters.expired == 20
    house.store.close()


@pytest.mark.parametrize("groups", [1, 1000])
def test_message_beyond_the_window_takes_at_most_200_bytes(groups: int) -> None:
    # Not the default strategy: its bounded memory of hashes would weigh on so short a backlog.
    settings = QueueSettings(groups=GroupSettings(strategy="simple"))
    queue = Queue("a", settings, strategy_of(settings), GroupKey(), Unowned())
    count = 10 * 1000
    tracemalloc.start()
    try:
        for seq in range(1_000_000, 1_000_000 + count):
            group = f"group-{seq % groups}" if groups > 1 else ""
            expires_ms = 2_000_000_000_000 + seq * 3
            restore(queue, [MessageRecord(1, seq, group, 0, 1024, 4, expires_ms, 0)], 10**9)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / count <= 200


def test_window_of_all_queues_holds_for_a_queue_below_its_own(tmp_path: Path) -> None:
    house = House(tmp_path, windows(10 * WINDOW, WINDOW))
    filled(house, 100)
    assert resident(house) <= 2 * WINDOW
    assert len(drain(house, house.reader("a", 3))) == 100
    house.store.close()


def test_memory_stays_at_the_window_while_a_backlog_drains(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    filled(house, 300)
    reader = house.reader("a", 5)
    highest = 0
    for _ in range(300):
        house.rest()
        highest = max(highest, resident(house))
        for entry in list(reader.unsettled.values()):
            house.settle(entry)
            reader.window.grant(1, 0)
    assert house.queue("a").state.index.count == 0
    assert highest <= WINDOW + 3 * page.PAGE_MESSAGES * (len(BODY) + 8)
    house.store.close()


def test_selector_that_refuses_everything_does_not_fill_the_memory(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    filled(house, 200)
    picky = Reader(Window(10))
    picky.selector = compile_selector("size > 1000")
    house.queue("a").join(picky, 0.0)
    house.rest()
    check_counts(house)
    assert resident(house) <= WINDOW + 3 * paging.LOADED_MIN * (len(BODY) + 8)
    house.send("a", b"y" * 2000)
    house.rest()
    assert [entry.size for entry in picky.entries] == [2000]
    assert len(drain(house, house.reader("a", 5))) == 200
    house.store.close()


def test_selector_on_groups_reads_what_it_decides_about(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    filled(house, 60, groups=3)
    house.send("a", b"y" * 2000, "g1")
    house.rest()
    house = house.restart()
    picky = Reader(Window(10))
    picky.selector = compile_selector("size > 1000")
    house.queue("a").join(picky, 0.0)
    house.rest()
    assert [entry.size for entry in picky.entries] == [2000]
    house.settle(picky.entries[0])
    assert len(drain(house, house.reader("a", 5))) == 60
    house.store.close()


def test_browser_sees_a_backlog_that_is_out_and_leaves_memory_as_it_was(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 200)
    seen: list[bytes] = []

    class Browser(Reader):
        def deliver(self, entry: Entry) -> None:
            seen.append(entry.content.neutral().body)

    browser = Browser(Window(1000))
    browser.is_browser = True
    house.queue("a").join(browser, 0.0)
    house.rest()
    assert seen == sent
    assert browser.ends == 1
    assert resident(house) <= WINDOW + 3 * paging.LOADED_MIN * (len(BODY) + 8)
    house.store.close()


class Watcher(Reader):
    """A browser that keeps what it saw."""

    def __init__(self, credit: int) -> None:
        super().__init__(Window(credit))
        self.is_browser = True
        self.seen: list[bytes] = []

    def deliver(self, entry: Entry) -> None:
        super().deliver(entry)
        self.seen.append(entry.content.neutral().body)


def test_browser_sees_kept_and_spilled_messages_in_one_order(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = [b"%08d" % number + BODY for number in range(120)]
    for number, body in enumerate(sent):
        house.send("a", body, "", persistent=number % 3 == 0)
        house.rest()
    before = house.queue("a").storage_state.out
    browser = Watcher(1000)
    house.queue("a").join(browser, 0.0)
    house.rest()
    assert browser.seen == sent
    assert browser.got == sorted(browser.got)
    assert house.queue("a").storage_state.out == before  # nothing came back for it
    check_counts(house)
    house.store.close()


def test_browser_without_credit_reads_no_page_and_goes_on_when_it_has_some(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 60)
    browser = Watcher(30)
    house.queue("a").join(browser, 0.0)
    house.rest()
    assert browser.seen == sent[:30]
    assert house.broker.commits.pager is not None
    assert house.broker.commits.pager.pages_under_way == 0
    browser.window.grant(1000, 0)
    house.rest()
    assert browser.seen == sent
    house.store.close()


def test_browser_passes_over_what_others_take_under_it(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 200, persistent=False)
    browser, reader = Watcher(5), house.reader("a", 20)
    house.queue("a").join(browser, 0.0)
    house.rest()
    while house.queue("a").state.index.count > 50:
        drained, reader.entries = reader.entries, []
        for entry in drained:
            house.settle(entry)
        reader.window.grant(len(drained), 0)
        browser.window.grant(3, 0)
        house.rest()
    reader.window.count = 0
    browser.window.grant(1000, 0)
    house.rest()
    assert browser.seen == [sent[number - 1] for number in browser.got]
    assert browser.got == sorted(set(browser.got))
    assert browser.got[-1] == 200 and browser.ends == 1
    check_counts(house)
    house.store.close()


def test_returned_message_keeps_its_place_though_others_are_out(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 100)
    reader = house.reader("a", 20)
    house.rest()
    for entry in reader.entries[5:15]:
        house.settle(entry, Outcome.RELEASED)
    for entry in reader.entries[:5] + reader.entries[15:]:
        house.settle(entry)
    reader.entries.clear()
    reader.window.grant(20, 0)
    assert drain(house, reader) == sent[5:15] + sent[20:]
    house.store.close()


def test_damaged_message_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    sent = filled(house, 40)
    house.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection:
        connection.execute("update bodies set body = x'00' where id % 16 = 3")
        connection.execute("update bodies set kind = 'unknown' where id % 16 = 5")
        connection.commit()
    house = House(tmp_path, house.settings)
    got = drain(house, house.reader("a", 5))
    assert got == [body for seq, body in enumerate(sent, 1) if seq % 16 not in (3, 5)]
    assert house.broker.commits.pager is not None
    first, second = house.broker.commits.pager.damages[:2]
    assert first.startswith("queue a: message 3 cannot be read from the store: ")
    assert second.endswith("message 5 cannot be read from the store: nothing here reads messages"
                           " of the kind unknown")  # fmt: skip
    assert len(house.broker.commits.pager.damages) == 6
    house = house.restart()
    assert house.queue("a").state.index.count == 6, "what is damaged stays on the disk"
    house.store.close()


def test_spilled_messages_that_were_settled_leave_the_scratch_file(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    filled(house, 100, persistent=False)
    drain(house, house.reader("a", 5))
    house.rest()
    (count,) = house.store._connection.execute("select count(*) from scratch.spilled").fetchone()
    assert count == 0
    house.store.close()


def test_deleted_queue_no_longer_counts(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, WINDOW))
    filled(house, 50)
    house.host.delete_queue("a", "deleted")
    house.rest()
    assert house.broker.commits.pager is not None
    assert house.broker.commits.pager.bodies.total == 0
    house.store.close()


def test_bodies_of_a_queue_that_was_deleted_meanwhile_are_no_damage(tmp_path: Path) -> None:
    house = House(tmp_path, windows(WINDOW, 10 * WINDOW))
    filled(house, 50)
    house.reader("a")
    house.broker.run(house.now)
    assert house.broker.commits.pager is not None
    assert house.broker.commits.pager.pages_under_way
    house.host.delete_queue("a", "deleted")
    house.rest()
    assert house.broker.commits.pager.damages == []
    house.store.close()


def test_levels_and_views_that_wait_do_not_take_each_others_messages_out_of_memory(
    tmp_path: Path,
) -> None:
    limits = windows(0, 0).model_copy(update={"queue": (QueueSettings(priorities=5),)})
    house = House(tmp_path, limits)
    readers = []
    for number in range(120):
        note = Note(b"%08d" % number + BODY)
        note.priority = 2 + number % 5
        house.publish("a", note)
    house.rest()
    for size in (0, 1, 2):
        reader = Reader(Window(1))
        reader.selector = compile_selector(f"size > {size}")
        house.queue("a").join(reader, 0.0)
        house.rest()  # it comes to rest, although nobody takes what was read
        readers.append(reader)
    assert [len(reader.entries) for reader in readers] == [1, 1, 1]
    got = sum(len(drain(house, reader)) for reader in [*readers, house.reader("a", 5)])
    assert got == 120
    house.store.close()


@pytest.mark.parametrize("strategy", ["simple", "hash-buckets", "consistent-hash"])
def test_random_traffic_over_a_tiny_window_loses_nothing_and_keeps_group_order(
    tmp_path: Path, strategy: str
) -> None:
    policy = QueueSettings(groups=GroupSettings.model_validate({"strategy": strategy}))
    house = House(tmp_path, windows(300, 300).model_copy(update={"queue": (policy,)}))
    chance = random.Random(strategy)
    readers: list[Reader] = []
    sent = 0
    done: dict[str, list[int]] = {}
    for _ in range(250):
        act = chance.random()
        if act < 0.5:
            for _ in range(chance.randrange(12)):
                group = chance.choice(["", "p", "q", "r"])
                body = b"%d" % sent + BODY[: chance.randrange(100)].replace(b"x", b" ")
                house.send("a", body, group, persistent=chance.random() < 0.5)
                sent += 1
        elif act < 0.6 and len(readers) < 3:
            readers.append(house.reader("a", chance.randrange(1, 6)))
        elif act < 0.65 and readers:
            house.queue("a").leave(readers.pop(chance.randrange(len(readers))), 0.0)
        else:
            _settle_some(house, readers, chance, done)
        if chance.random() < 0.7:
            house.rest()
            check_counts(house)
    readers = readers or [house.reader("a", 5)]
    while house.queue("a").state.index.count:
        house.rest()
        _settle_some(house, readers, chance, done)
    assert sorted(number for numbers in done.values() for number in numbers) == list(range(sent))
    for group in ("p", "q", "r"):
        assert done.get(group, []) == sorted(done.get(group, []))
    house.store.close()


def _settle_some(
    house: House, readers: list[Reader], chance: random.Random, done: dict[str, list[int]]
) -> None:
    """Settle from the front; now and then one goes back, and all behind it too."""
    for reader in readers:
        for entry in sorted(reader.unsettled.values(), key=lambda entry: entry.seq):
            note = entry.content
            assert isinstance(note, Note)
            if chance.random() < 0.2:
                break
            done.setdefault(note.group, []).append(int(note.body))
            house.settle(entry)
        for entry in list(reader.unsettled.values()):
            house.settle(entry, Outcome.RELEASED)
        reader.window.count = 3
        reader.window.reconsider()
