"""Commands on groups, single messages and dead letters, with kills at any time: random lives.

Each event is drawn from one seed, the kills too. `play(seed, ...)` plays a sequence again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.management import transfers
from covey.core.management.admin import Admin
from covey.core.model.entry import ACQUIRED, Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.publishing.transfer import Group, Transfer
from tests.core.storage.sqlite.support import ADMIN, Note
from tests.properties.lives import Command, Judged, Life
from tests.properties.seeds import first_seed

SEEDS = max(1, int(os.environ.get("COVEY_SEQUENCES", "2000")) // 500)
EVENTS = 120
QUEUES = ("q", "r")
GROUPS = ("", "a", "b", "c")
STRATEGIES = ("shared", "simple", "lru", "hash-buckets", "consistent-hash")
TURNS_MAX = 10_000

WEIGHTS = {
    "send": 22,
    "join": 5,
    "leave": 2,
    "settle": 16,
    "move_group": 4,
    "purge_group": 2,
    "dead_letter_group": 3,
    "retry": 4,
    "numbers": 4,
    "park": 5,
    "go_on": 20,
    "write": 16,
    "kill": 3,
}


class Lives:
    """One life after the other, all from one seed."""

    def __init__(self, seed: int, strategy: str, directory: Path) -> None:
        self.random = Random(f"{strategy} {seed}")
        policy = {
            "dlq": "dead",
            "nak_limit": 2,
            "dead_letter_rest": self.random.random() < 0.6,
            "dead_letter_then": self.random.choice(("go-on", "go-on", "park")),
            "groups": {
                "strategy": strategy,
                "header": "group",
                "default_group": "",
                "cache_size": 2,
                "bucket_count": 3,
            },
        }
        # In some runs no body stays in memory, and what is out is packed at once.
        is_packed = Random(f"{strategy} {seed} packed").random() < 0.5
        names = ("memory_window_queue", "memory_window_total", "memory_entries_queue")
        self.settings = Settings.model_validate(
            {
                "broker": dict.fromkeys(names, 0) if is_packed else {},
                "queue": [{**policy, "id": name} for name in QUEUES] + [{"id": "**"}],
            }
        )
        self.directory = directory
        self.count = 0
        self.kills = 0
        self.done = 0  # messages that commands took
        self.trace: list[str] = []
        self.life = Life(directory, self.settings)
        self._begin()

    def _begin(self) -> None:
        self.life.broker.jobs.portion = self.random.choice((1, 2, 5))

    @property
    def admin(self) -> Admin:
        broker = self.life.broker
        return Admin(broker, broker.host, ADMIN, "test", self.life.session)

    def play(self) -> None:
        """Play random events, then let all work come to its end."""
        names = list(WEIGHTS)
        for name in self.random.choices(names, list(WEIGHTS.values()), k=EVENTS):
            self.trace.append(name)
            getattr(self, f"on_{name}")()
            self.life.run()
        self.finish()

    def finish(self) -> None:
        """Let consumers go, write everything, do all work; then nothing may be lost by a kill."""
        for reader in list(self.life.readers):
            self.life.leave(reader)
        for _ in range(TURNS_MAX):
            self.life.go_on()
            self.life.write(len(self.life.held))
            if not self.life.broker.jobs.is_any and not self.life.held:
                break
        else:
            raise AssertionError("the work never ends")
        assert not self.life.seen().dying
        self.on_kill()
        self.life.kill()

    # Events.

    def on_send(self) -> None:
        for _ in range(self.random.choice((1, 2, 4))):
            self.count += 1
            is_kept = self.random.random() < 0.85
            name = f"{'kept' if is_kept else 'lost'} {self.count}"
            note = Note(name.encode(), self.random.choice(GROUPS), persistent=is_kept)
            place = (Destination(Kind.QUEUE, self.random.choice(QUEUES)),)
            self.life.broker.publishing.publish(self.life.session, place, note)

    def on_join(self) -> None:
        if len(self.life.readers) < 4:
            queue = self.random.choice((*QUEUES, *QUEUES, "dead"))
            self.life.join(queue, self.random.choice((1, 2, 5)))

    def on_leave(self) -> None:
        if self.life.readers:
            self.life.leave(self.random.choice(self.life.readers))

    def on_settle(self) -> None:
        held = [(one, entry) for one in self.life.readers for entry in one.unsettled.values()]
        if not held:
            return
        reader, entry = self.random.choice(held)
        self._settle(reader, entry.seq)
        reader.window.grant(1, 0)

    def _settle(self, reader: Judged, seq: int) -> None:
        queue, entry = reader.queue, reader.unsettled[seq]
        assert queue is not None
        dying = (Outcome.REJECTED, Outcome.FAILED, Outcome.FAILED) if queue.name != "dead" else ()
        outcome = self.random.choice((Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.RELEASED, *dying))
        if outcome is Outcome.ACCEPTED:
            self.life.may_go.add(entry.content.neutral().body.decode())
        self.life.taken.add((queue.name, seq))
        queue.settle(entry, outcome, self.life.now)

    def on_move_group(self) -> None:
        source, target = self.random.sample((*QUEUES, "dead"), 2)
        self._take(source, lambda group, waits: transfers.move_group(
            self.admin, source, group, target, self.life.now, waits=waits
        ))  # fmt: skip

    def on_purge_group(self) -> None:
        source = self.random.choice(QUEUES)
        group, waits = self._some_group(), self.random.random() < 0.3
        queue = self.life.broker.host.queues.get(source)
        if queue is not None:
            ours = [one for one in self.life.seen().queues[source] if one[1] == group]
            self.life.may_go.update(name for _, _, name, _ in ours)
        self._take(source, lambda group, waits: transfers.purge_group(
            self.admin, source, group, self.life.now, waits=waits
        ), group, waits=waits)  # fmt: skip

    def on_dead_letter_group(self) -> None:
        source = self.random.choice(QUEUES)
        self._take(source, lambda group, waits: transfers.dead_letter_group(
            self.admin, source, group, self.life.now, reason="test", waits=waits
        ))  # fmt: skip

    def _some_group(self) -> str:
        return self.random.choice(GROUPS[1:])

    def _take(
        self,
        source: str,
        command: Callable[[str, bool], Transfer],
        group: str = "",
        *,
        waits: bool | None = None,
    ) -> None:
        group = group or self._some_group()
        waits = self.random.random() < 0.3 if waits is None else waits
        queue = self.life.broker.host.queues.get(source)
        numbers = []
        if queue is not None:
            numbers = [
                entry.seq
                for entry in queue.state.index
                if entry.lane.name == group and entry.state != ACQUIRED
            ]
        self.trace.append(f"    {source} {group} waits={waits} {numbers}")
        try:
            job = command(group, waits)
        except RefusedError as error:
            assert error.code in ("conflict", "not-found"), error
            return
        assert isinstance(job.choice, Group)
        if not job.is_over and not waits:
            self.life.commands.append(Command(job, source, numbers))
        job.then(lambda: self._count(job))

    def _count(self, job: Transfer) -> None:
        self.done += job.count

    def on_retry(self) -> None:
        if "dead" not in self.life.broker.host.queues:
            return
        group = self.random.choice(GROUPS)
        job = transfers.retry(
            self.admin, "dead", self.life.now, group=group, count=self.random.choice((0, 1, 3))
        )
        self._other_commands_take("dead")
        job.then(lambda: self._count(job))

    def on_numbers(self) -> None:
        names = [name for name in (*QUEUES, "dead") if name in self.life.broker.host.queues]
        if not names:
            return
        source = self.random.choice(names)
        places = self.life.seen().queues[source]
        picked = self.random.sample(places, min(len(places), self.random.choice((1, 3))))
        numbers = [seq for seq, _, _, _ in picked] + [99_999]
        now = self.life.now
        self._other_commands_take(source)
        verb = self.random.choice(("move", "delete", "dead-letter", "retry"))
        self.trace.append(f"    {verb} {source} {numbers}")
        if verb == "move":
            target = self.random.choice([name for name in (*QUEUES, "dead") if name != source])
            job: Transfer = transfers.move_messages(self.admin, source, numbers, target, now)
        elif verb == "delete":
            self.life.may_go.update(name for _, _, name, _ in picked)
            job = transfers.delete_messages(self.admin, source, numbers, now)
        elif verb == "retry" and source == "dead":
            job = transfers.retry_messages(self.admin, source, numbers, now)
        elif source != "dead":
            job = transfers.dead_letter_messages(self.admin, source, numbers, now)
        else:
            return
        job.then(lambda: self._count(job))

    def _other_commands_take(self, queue: str) -> None:
        numbers = self.life.seen().numbers(queue)
        self.life.taken.update((queue, seq) for seq in numbers)

    def on_park(self) -> None:
        queue, group = self.random.choice(QUEUES), self._some_group()
        if queue in self.life.broker.host.queues:
            is_parked = self.random.random() < 0.5
            self.trace.append(f"    {queue} {group} {is_parked}")
            self.admin.park(queue, group, self.life.now, parked=is_parked, reason="test")

    def on_go_on(self) -> None:
        self.life.go_on()

    def on_write(self) -> None:
        self.life.write(self.random.choice((1, 2, len(self.life.held))))

    def on_kill(self) -> None:
        self.kills += 1
        left = self.life.kill()
        self.trace.append(f"    {left}")
        deliveries = self.life.deliveries
        self.life = Life(self.directory, self.settings, left)
        self.life.deliveries = deliveries
        self._begin()


def play(seed: int, strategy: str, directory: Path) -> Lives:
    """Play one sequence; a violation names the seed."""
    lives = Lives(seed, strategy, directory)
    try:
        lives.play()
    except Exception as error:
        lives.life.store.close()
        trace = "\n".join(lives.trace[-40:])
        raise AssertionError(f"{strategy}, seed {seed}: {error!r}\n{trace}") from error
    return lives


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_lost_doubled_or_turned_by_commands_and_kills(
    strategy: str, tmp_path: Path
) -> None:
    seeds = range(first_seed(), first_seed() + SEEDS)
    played = [play(seed, strategy, tmp_path / str(seed)) for seed in seeds]
    assert sum(lives.kills for lives in played) > SEEDS
    assert sum(lives.life.deliveries for lives in played) > SEEDS
    assert sum(lives.done for lives in played) > SEEDS
