"""Nemesis: two brokers and a database under faults, and every message is accounted for.

STOMP and AMQP clients work on one virtual host, one half through each broker: so half of them are
passed on to its owner. Each fault waits until all of them are at work again. A client whose
connection breaks connects again, now here and now there. After the last fault the queues are
drained, and the checker reads the logs (`tests.e2e.checker`; its power is tested on forged
histories).

    kill    SIGKILL of the owner                long, short   SIGSTOP beyond, within the lease
    term    SIGTERM of the owner                database      a crash of PostgreSQL
    move    `covey cluster move` to the other   both          a crash and a SIGKILL at once

    python -m tests.e2e.nemesis [--faults N] [--seed N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from covey.client.errors import ClientError
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.checker import Verdict, check, read_logs
from tests.e2e.nodes import LEASE_S, Node, management
from tests.e2e.support import BrokerProcess
from tests.e2e.workers import (
    COPIES,
    AmqpConsumer,
    AmqpProducer,
    CopyingConsumer,
    Log,
    Producer,
    StompConsumer,
    StompProducer,
    TransactionProducer,
    Worker,
)

BACK_S = 60.0  # for all clients to be at work again, on a machine that does other things, too
JOIN_S = 40.0
LOOK_S = 0.05
QUIET_S = 2.0  # without a delivery a queue counts as drained
SPACE = "default"
FAULTS = ("kill", "long", "short", "term", "database", "move", "both")


class Clients:
    """Producers and consumers that come back, each with its log."""

    def __init__(self, folder: Path, random: Random) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.random = random
        self.numbers: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.restarts = 0
        self._makers: dict[str, Callable[[str, int, int], Worker]] = {
            "stomp": self._producer(StompProducer),
            "transaction": self._producer(TransactionProducer),
            "amqp": self._producer(AmqpProducer),
            "reader": lambda name, seed, port: StompConsumer(name, self.logs[name], seed, port),
            "copier": lambda name, seed, port: CopyingConsumer(name, self.logs[name], seed, port),
            "accepter": lambda name, seed, port: AmqpConsumer(name, self.logs[name], seed, port),
        }
        self.logs = {name: Log(folder, name) for name in (*self._makers, "drain", "drain-copies")}
        self.workers: dict[str, Worker] = {}

    def _producer(self, kind: type[Producer]) -> Callable[[str, int, int], Worker]:
        def make(name: str, seed: int, port: int) -> Worker:
            return kind(name, self.logs[name], seed, port, self.numbers[name])

        return make

    def tend(self, brokers: list[BrokerProcess]) -> None:
        """Have those that have ended connect again, somewhere."""
        for name, make in self._makers.items():
            worker = self.workers.get(name)
            if worker is not None and worker.is_alive():
                continue
            if worker is not None:
                self._note(worker)
                self.restarts += 1
            broker = self.random.choice(brokers)
            is_amqp = name in ("amqp", "accepter")
            port = broker.port_of(1) if is_amqp else broker.port
            self.workers[name] = make(name, self.random.randrange(2**32), port)
            self.workers[name].start()

    def progress(self) -> dict[str, int]:
        """Return how much each has done."""
        return {name: self.done[name] + one.done for name, one in self.workers.items()}

    @property
    def sent(self) -> int:
        """Return how many messages were sent."""
        running = {
            name: one.number for name, one in self.workers.items() if isinstance(one, Producer)
        }
        return sum((self.numbers | running).values())

    def stop(self) -> None:
        """End all of them."""
        for worker in self.workers.values():
            worker.is_stopping = True
        for worker in self.workers.values():
            worker.join(JOIN_S)
            assert not worker.is_alive(), f"{worker.name} hangs"
            self._note(worker)
        self.workers.clear()

    def _note(self, worker: Worker) -> None:
        if worker.trouble is not None:
            raise AssertionError(f"{worker.name} was told nonsense") from worker.trouble
        self.done[worker.name] += worker.done
        if isinstance(worker, Producer):
            self.numbers[worker.name] = worker.number


class Nemesis:
    """Two brokers, a database, clients, and what is done to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.faults: Counter[str] = Counter()
        self.longest_s = 0.0  # from a fault until all clients were at work again
        self.server = Server()
        postgres = Postgres(self.server)
        folder.mkdir(parents=True, exist_ok=True)
        self.nodes = [Node(folder, postgres, name) for name in "ab"]
        self.brokers = [node.served() for node in self.nodes]
        self.clients = Clients(folder / "clients", self.random)

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)
            node.process.kill()
            node.process.wait(JOIN_S)
        self.server.remove()

    def begin(self) -> None:
        """Let all clients come to work."""
        self._until_back({})

    def strike(self, fault: str) -> None:
        """Do something bad, and wait until all clients have done something since."""
        before = self.clients.progress()
        began = time.monotonic()
        owner = self._owner()
        getattr(self, f"_{fault}")(owner)
        self._until_back(before)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.faults[fault] += 1

    def finish(self) -> Verdict:
        """Drain everything, and judge."""
        self.clients.stop()
        port = self.brokers[self._owner()].port
        for name, options in (("drain", {}), ("drain-copies", {"queue": COPIES})):
            worker = StompConsumer(name, self.clients.logs[name], 0, port, **options)
            worker.start()
            seen, since = -1, time.monotonic()
            while time.monotonic() - since < QUIET_S:
                if worker.done != seen:
                    seen, since = worker.done, time.monotonic()
                time.sleep(LOOK_S)
            worker.is_stopping = True
            worker.join(JOIN_S)
            assert worker.trouble is None, worker.trouble
        for log in self.clients.logs.values():
            log.close()
        return check(read_logs(self.folder / "clients"))

    # Faults.

    def _kill(self, owner: int) -> None:
        self.nodes[owner].process.kill()
        self._again(owner)

    def _term(self, owner: int) -> None:
        self.nodes[owner].process.send_signal(signal.SIGTERM)
        self._again(owner)

    def _long(self, owner: int) -> None:
        self._freeze(owner, LEASE_S * self.random.uniform(1.3, 2.0))

    def _short(self, owner: int) -> None:
        self._freeze(owner, LEASE_S * self.random.uniform(0.1, 0.5))

    def _database(self, owner: int) -> None:
        self.server.stop("immediate")
        time.sleep(self.random.uniform(0.0, LEASE_S))
        self.server.start()

    def _both(self, owner: int) -> None:
        self.server.stop("immediate")
        self.nodes[owner].process.kill()
        self.server.start()
        self._again(owner)

    def _move(self, owner: int) -> None:
        with management(self.brokers[owner]) as client:
            client.ask("UPDATE", "space", SPACE, {"owner": self.nodes[1 - owner].name})

    def _freeze(self, owner: int, seconds: float) -> None:
        self.nodes[owner].process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.nodes[owner].process.send_signal(signal.SIGCONT)

    def _again(self, number: int) -> None:
        """Start a broker that has ended, as a supervisor would; clients use the other meanwhile."""
        node = self.nodes[number]
        node.process.wait(JOIN_S)
        self.clients.tend([self.brokers[1 - number]])
        node.start()
        self.brokers[number] = node.served()

    # Looking.

    def _owner(self) -> int:
        """Return which broker serves; waits until one does."""
        until = time.monotonic() + BACK_S
        names = [node.name for node in self.nodes]
        while True:
            for broker in self.brokers:
                try:
                    with management(broker) as client:
                        owner = client.read("space", SPACE)["owner"]
                except (ClientError, OSError):
                    continue
                if owner in names:
                    return names.index(str(owner))
            assert time.monotonic() < until, "nobody serves"
            time.sleep(LOOK_S)

    def _until_back(self, before: dict[str, int]) -> None:
        until = time.monotonic() + BACK_S
        while True:
            self.clients.tend(self.brokers)
            now = self.clients.progress()
            idle = [name for name, count in now.items() if count <= before.get(name, 0)]
            if not idle:
                return
            assert time.monotonic() < until, f"{', '.join(idle)} did nothing for {BACK_S} s"
            time.sleep(LOOK_S)


def play(folder: Path, seed: int, faults: list[str], tell: Callable[[str], None]) -> Verdict:
    """Do these faults one after the other; return the verdict."""
    nemesis = Nemesis(folder, seed)
    started = time.monotonic()
    try:
        nemesis.begin()
        for fault in faults:
            nemesis.strike(fault)
            sent = nemesis.clients.sent
            told = f"{sum(nemesis.faults.values())} faults, {sent} messages"
            tell(f"\r{told}, last {fault}, {time.monotonic() - started:.0f} s   ")
        verdict = nemesis.finish()
        counts = ", ".join([f"{count} {name}" for name, count in sorted(nemesis.faults.items())])
        tell(f"\n{counts}; back after {nemesis.longest_s:.1f} s at most\n")
        return verdict
    finally:
        nemesis.close()


def main(arguments: list[str]) -> int:
    """Be a nemesis for as long as asked; 0 if no promise was broken."""
    parser = argparse.ArgumentParser(prog="scripts/torture --cluster", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--folder", type=Path, default=None, help="keep data and logs here")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="covey-nemesis-"))
    faults = [FAULTS[at % len(FAULTS)] for at in range(given.faults)]
    Random(given.seed).shuffle(faults)

    def tell(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    verdict = play(folder, given.seed, faults, tell)
    tell(f"seed {given.seed}, {folder}\n{verdict}\n")
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
