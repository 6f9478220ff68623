"""Backlogs: two brokers live through the same random events, and one packs all that it may.

Nothing that anybody can see may differ: who gets what and in which order, what is there, with which
group, state and count, what browsers see, what commands take, and what a restart brings back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest

from covey.config.settings import Settings
from covey.core.dispatch import level
from covey.core.errors import RefusedError
from covey.core.management import transfers
from covey.core.management.admin import Admin
from covey.core.model.consumer import Window
from covey.core.model.entry import Entry, Outcome
from covey.core.selector import compile_selector
from covey.core.storage import paging
from tests.core.storage.bench import PATIENCE_S
from tests.core.storage.sqlite.support import ADMIN, House, Note
from tests.core.support import Reader

SEEDS = max(2, int(os.environ.get("COVEY_SEQUENCES", "2000")) // 500)
EVENTS = 60
STRATEGIES = ("shared", "simple", "lru", "hash-buckets", "consistent-hash")
WEIGHTS = {
    "send": 14,
    "join": 4,
    "leave": 3,
    "settle": 16,
    "browse": 3,
    "park": 3,
    "take_group": 3,
    "take_numbers": 3,
    "purge": 1,
    "wait": 6,
    "restart": 2,
}
OUTCOMES = (Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.RELEASED, Outcome.FAILED, Outcome.REJECTED)


class Browser(Reader):
    """Looks, and keeps what it saw."""

    def __init__(self) -> None:
        super().__init__(Window(100_000))
        self.is_browser = True
        self.seen: list[tuple[int, bytes]] = []

    def deliver(self, entry: Entry) -> None:
        self.seen.append((entry.seq, entry.content.neutral().body))


class Twin:
    """One of the two; all of its randomness comes from its seed."""

    def __init__(self, seed: int, strategy: str, directory: Path, *, packs: bool) -> None:
        self.packs = packs
        self.random = Random(f"{strategy} {seed}")
        groups = self.random.choice((2, 5, 40))
        self.groups = ("", *[f"g{number}" for number in range(groups)])
        window = self.random.choice((0, 300))
        policy = {
            "dlq": "dead",
            "nak_limit": 2,
            "quota_messages": self.random.choice((0, 0, 150)),
            "full_policy": "drop head",
            "groups": {
                "strategy": strategy,
                "header": "group" if strategy == "shared" else None,
                "default_group": "",
                "cache_size": 2,
            },
        }
        if strategy != "shared" and self.random.random() < 0.3:
            policy["priorities"] = 3
        self.settings = Settings.model_validate(
            {
                "broker": {"memory_window_queue": window, "memory_window_total": window},
                "queue": [{**policy, "id": "q"}, {"id": "**"}],
            }
        )
        self.house = House(directory, self.settings)
        self.sent = 0
        self.packed = 0  # the most that were packed at a time
        self.readers: list[Reader] = []
        self.told: list[object] = []

    def act(self, name: str) -> object:
        """Do one event; return all that can be seen then."""
        self.told = []
        self._pack()
        getattr(self, f"on_{name}")()
        self._pack()
        self._rest()
        self._pack()
        return self.told, [reader.got for reader in self.readers], self._shown()

    def _rest(self) -> None:
        """Run until nothing is under way; what the store was given comes back together.

        Else it would be chance which of the twins gets two pages in one turn.
        """
        broker, loop = self.house.broker, self.house.loop
        assert broker.commits.pager is not None
        broker.run(self.house.now)
        given = len(broker.commits.in_flight) + broker.commits.pager.pages_under_way
        while given or broker.turns.is_any_dirty:
            deadline = time.monotonic() + PATIENCE_S
            while given and self._reported() < given:
                assert time.monotonic() < deadline, "the store never answers"
                time.sleep(0)
            while not loop.is_idle():
                loop.turn()
            broker.run(self.house.now)
            given = len(broker.commits.in_flight) + broker.commits.pager.pages_under_way

    def _reported(self) -> int:
        report = self.house.store._writer._report
        return 0 if report is None else len(report.tickets) + len(report.pages)

    def _pack(self) -> None:
        """Pack at once. A sweep would add turns, in which bodies leave memory earlier."""
        for queue in self.house.host.queues.values() if self.packs else ():
            queue.dispatch.backlog.pack_all()
            self.packed = max(self.packed, queue.state.index.packed)

    def _shown(self) -> list[object]:
        queues = self.house.host.queues
        found: list[object] = []
        for name in ("q", "other", "dead"):
            if name not in queues:
                continue
            queue = queues[name]
            counts = queue.counters
            found.append(
                (
                    name,
                    [_look(entry) for entry in queue.state.index],
                    sorted(
                        (lane.name, lane.count, lane.where)
                        for lane in (*queue.state.lanes.values(), *queue.state.levels)
                    ),
                    (queue.size, queue.state.index.count, queue.storage_state.out),
                    (counts.acked, counts.dead, counts.expired, counts.dropped, counts.moved),
                )
            )
        return found

    @property
    def admin(self) -> Admin:
        broker = self.house.broker
        return Admin(broker, broker.host, ADMIN, "test", self.house.session)

    def on_send(self) -> None:
        for _ in range(self.random.choice((1, 5, 60))):
            self.sent += 1
            group = self.random.choice(self.groups)
            is_kept = self.random.random() < 0.9
            note = Note(b"%d" % self.sent + bytes(self.random.randrange(30)), group)
            note.persistent = is_kept
            note.priority = self.random.choice((3, 4, 5))
            if self.random.random() < 0.3:
                note.expires_ms = int(self.house.now * 1000) + self.random.choice((1500, 20_000))
            self.house.publish("q", note)

    def on_join(self) -> None:
        if len(self.readers) == 3:
            return
        reader = Reader(Window(self.random.choice((1, 3, 20))))
        if self.random.random() < 0.2:
            reader.selector = compile_selector(f"size > {self.random.randrange(20)}")
        self.house.queue(self.random.choice(("q", "q", "other"))).join(reader, self.house.now)
        self.readers.append(reader)

    def on_leave(self) -> None:
        if self.readers:
            reader = self.readers.pop(self.random.randrange(len(self.readers)))
            if reader.queue is not None:
                reader.queue.leave(reader, self.house.now)

    def on_settle(self) -> None:
        for reader in self.readers:
            for seq in sorted(reader.unsettled):
                entry = reader.unsettled.get(seq)
                if entry is not None and self.random.random() < 0.7:
                    self.house.settle(entry, self.random.choice(OUTCOMES))
                    reader.window.grant(1, 0)

    def on_browse(self) -> None:
        browser = Browser()
        queue = self.house.queue("q")
        queue.join(browser, self.house.now)
        self._rest()
        self.told.append((browser.seen, browser.ends))
        queue.leave(browser, self.house.now)

    def on_park(self) -> None:
        self._try(
            lambda group: self.admin.park(
                "q", group, self.house.now, parked=self.random.random() < 0.5
            )
        )

    def on_take_group(self) -> None:
        verb = self.random.choice(("move", "purge", "dead-letter", "look"))
        now = self.house.now
        if verb == "move":
            self._try(lambda group: transfers.move_group(self.admin, "q", group, "other", now))
        elif verb == "purge":
            self._try(lambda group: transfers.purge_group(self.admin, "q", group, now))
        elif verb == "dead-letter":
            self._try(lambda group: transfers.dead_letter_group(self.admin, "q", group, now))
        else:
            self._try(lambda group: transfers.retry(self.admin, "dead", now, group=group))

    def _try(self, command: Callable[[str], object]) -> None:
        group = self.random.choice(self.groups[1:])
        try:
            command(group)
        except RefusedError as error:
            self.told.append(error.code)
        self._work()

    def on_take_numbers(self) -> None:
        numbers = [self.random.randrange(1, self.sent + 2) for _ in range(4)]
        if self.random.random() < 0.5:
            transfers.move_messages(self.admin, "q", numbers, "other", self.house.now)
        else:
            transfers.delete_messages(self.admin, "q", numbers, self.house.now)
        self._work()

    def on_purge(self) -> None:
        self.admin.purge("q", self.house.now)
        self._work()

    def on_wait(self) -> None:
        self.house.now += self.random.choice((0.3, 1.0, 5.0))

    def on_restart(self) -> None:
        self.readers.clear()
        now = self.house.now
        self.house = self.house.restart()
        self.house.now = now

    def _work(self) -> None:
        """Let jobs come to their end."""
        for _ in range(10_000):
            self._rest()
            if not self.house.broker.jobs.is_any:
                return
            self.house.broker.go_on(self.house.now)
        raise AssertionError("the work never ends")


_LOOK = attrgetter("seq", "lane.name", "size", "deliveries", "state", "stored")


def _look(entry: Entry) -> tuple[object, ...]:
    holder = 0 if entry.holder is None else entry.holder.id
    return (*_LOOK(entry), holder, entry.expires_ms // 1000)


def play(seed: int, strategy: str, directory: Path) -> int:
    """Play one sequence with both; return how many were packed at a time."""
    plain = Twin(seed, strategy, directory / "plain", packs=False)
    packing = Twin(seed, strategy, directory / "packing", packs=True)
    names = ["send", "send", *Random(seed).choices(list(WEIGHTS), list(WEIGHTS.values()), k=EVENTS)]
    for step, name in enumerate(names):
        one, other = plain.act(name), packing.act(name)
        assert one == other, f"{strategy}, seed {seed}, step {step}, {name}: they differ"
    plain.house.store.close()
    packing.house.store.close()
    assert plain.packed == 0
    return packing.packed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_sees_that_a_backlog_is_packed(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PAGE_MESSAGES", 8)
    monkeypatch.setattr(paging, "LOADED_MIN", 16)
    monkeypatch.setattr(paging, "SPILL_MESSAGES", 1)
    monkeypatch.setattr(level, "TODO_MAX", 8)  # a compiled build keeps its own
    packed = [play(seed, strategy, tmp_path / str(seed)) for seed in range(SEEDS)]
    assert sum(packed) > 10 * SEEDS, "too few were packed to have judged anything"
