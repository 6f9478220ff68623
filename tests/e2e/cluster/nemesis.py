"""Nemesis: two brokers and a database under faults, and every message is accounted for.

The database is a primary with a synchronous standby.

STOMP and AMQP clients work on one virtual host, one half through each broker: so half of them are
passed on to its owner. Some work on queues with groups, some in transactions over two queues, and
some on a durable subscription. Each fault waits until all of them are at work again. A client whose
connection breaks connects again, now here and now there. After the last fault the queues are
drained, and the checker reads the logs (`tests.e2e.checker`; its power is tested on forged
histories).

    kill    SIGKILL of the owner                long, short   SIGSTOP beyond, within the lease
    term    SIGTERM of the owner                database      a crash of PostgreSQL
    move    `covey cluster move` to the other   both          a crash and a SIGKILL at once
    promote the primary is lost, its standby promoted, and for a while there is no standby

Where root allows, each broker has a link of its own to the database (`tests.e2e.cluster.network`):

    cut, blink    the owner's link drops all packets, beyond or within the lease
    deaf          it drops what the database says: commits are done, and nobody hears of it
    loss          it drops packets now and then, for longer than the lease
    split         cut, and the broker that has taken over meanwhile is killed

    python -m tests.e2e.cluster.nemesis [--faults N] [--only FAULT,..] [--seed N] [--folder DIR]
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

from covey.client.errors import AnswerError, ClientError
from tests.core.storage.postgres.server import Pair, Postgres
from tests.e2e.checker import Verdict, check, read_logs
from tests.e2e.cluster.network import Network, why_not
from tests.e2e.cluster.nodes import LEASE_S, Node, management
from tests.e2e.support import BrokerProcess
from tests.e2e.workers import (
    COPIES,
    DURABLE,
    WORK,
    AmqpConsumer,
    AmqpProducer,
    CopyingConsumer,
    Log,
    NewsProducer,
    Producer,
    StompConsumer,
    StompProducer,
    TransactionProducer,
    Worker,
    make_durable,
)

BACK_S = 60.0  # for all clients to be at work again, on a machine that does other things, too
JOIN_S = 40.0
LOOK_S = 0.05
QUIET_S = 2.0  # without a delivery a queue counts as drained
SPACE = "default"
FAULTS = ("kill", "long", "short", "term", "database", "move", "both", "promote")
OF_NETWORK = ("cut", "blink", "deaf", "loss", "split")
DRAINS = {"drain": WORK, "drain-copies": COPIES, "drain-durable": DURABLE}
PACKET_S = 0.05  # a link that loses packets drops them for up to so long, then passes them


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
            "news": self._producer(NewsProducer),
            "reader": lambda name, seed, port: StompConsumer(name, self.logs[name], seed, port),
            "copier": lambda name, seed, port: CopyingConsumer(name, self.logs[name], seed, port),
            "durable": lambda name, seed, port: StompConsumer(
                name, self.logs[name], seed, port, DURABLE
            ),
            "accepter": lambda name, seed, port: AmqpConsumer(name, self.logs[name], seed, port),
        }
        self.logs = {name: Log(folder, name) for name in (*self._makers, *DRAINS)}
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

    def __init__(
        self, folder: Path, seed: int, network: Network | None = None, program: str = "covey"
    ) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.network = network
        self.faults: Counter[str] = Counter()
        self.longest: dict[str, float] = {}  # from a fault until all clients were at work again
        if network is None:
            self.server = Pair()
            hosts = ["", ""]
        else:
            self.server = Pair(network.hosts, network.inside)
            hosts = [network.host(1), network.host(2)]
        self.postgres = postgres = Postgres(self.server)
        folder.mkdir(parents=True, exist_ok=True)
        self.nodes = [
            Node(folder, postgres, name, dsn=self.server.dsn(postgres.name, host), program=program)
            for name, host in zip("ab", hosts, strict=True)
        ]
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
        make_durable(self.brokers[self._owner()].port)
        self._until_back({})

    def strike(self, fault: str) -> None:
        """Do something bad, and wait until all clients have done something since."""
        before = self.clients.progress()
        began = time.monotonic()
        owner = self._owner()
        getattr(self, f"_{fault}")(owner)
        self._until_back(before)
        self.longest[fault] = max(self.longest.get(fault, 0.0), time.monotonic() - began)
        self.faults[fault] += 1

    def finish(self) -> Verdict:
        """Drain everything, and judge."""
        self.clients.stop()
        port = self.brokers[self._owner()].port
        for name, queue in DRAINS.items():
            worker = StompConsumer(name, self.clients.logs[name], 0, port, queue)
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

    def _promote(self, owner: int) -> None:
        self.server.fail_over()
        time.sleep(self.random.uniform(0.0, LEASE_S))
        self.server.mend()

    def _cut(self, owner: int) -> None:
        self._without_link(owner, self.random.uniform(1.3, 2.0))

    def _blink(self, owner: int) -> None:
        self._without_link(owner, self.random.uniform(0.1, 0.5))

    def _deaf(self, owner: int) -> None:
        assert self.network is not None
        self.network.deafen(owner + 1)
        time.sleep(LEASE_S * self.random.uniform(0.1, 2.0))
        self.network.join(owner + 1)

    def _loss(self, owner: int) -> None:
        assert self.network is not None
        until = time.monotonic() + 2 * LEASE_S
        while time.monotonic() < until:
            self.network.cut(owner + 1)
            time.sleep(self.random.uniform(0.0, PACKET_S))
            self.network.join(owner + 1)
            time.sleep(self.random.uniform(0.0, 2 * PACKET_S))

    def _split(self, owner: int) -> None:
        assert self.network is not None
        self.network.cut(owner + 1)
        time.sleep(LEASE_S * 1.5)
        self.nodes[1 - owner].process.kill()
        self.network.join(owner + 1)
        self._again(1 - owner)

    def _without_link(self, owner: int, leases: float) -> None:
        assert self.network is not None
        self.network.cut(owner + 1)
        time.sleep(LEASE_S * leases)
        self.network.join(owner + 1)

    def _move(self, owner: int) -> None:
        until = time.monotonic() + BACK_S
        while True:
            try:
                with management(self.brokers[owner]) as client:
                    client.ask("UPDATE", "space", SPACE, {"owner": self.nodes[1 - owner].name})
                return
            except AnswerError:  # the other one is not back yet from the last fault
                assert time.monotonic() < until, f"{self.nodes[1 - owner].name} does not come back"
                time.sleep(LOOK_S)

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


def play(
    folder: Path,
    seed: int,
    faults: list[str],
    tell: Callable[[str], None],
    network: Network | None = None,
) -> Verdict:
    """Do these faults one after the other; return the verdict."""
    nemesis = Nemesis(folder, seed, network)
    started = time.monotonic()
    try:
        nemesis.begin()
        for fault in faults:
            nemesis.strike(fault)
            sent = nemesis.clients.sent
            told = f"{sum(nemesis.faults.values())} faults, {sent} messages"
            tell(f"\r{told}, last {fault}, {time.monotonic() - started:.0f} s   ")
        verdict = nemesis.finish()
        counts = [
            f"{count} {name} (back after {nemesis.longest[name]:.1f} s at most)"
            for name, count in sorted(nemesis.faults.items())
        ]
        tell(f"\n{', '.join(counts)}\n")
        return verdict
    finally:
        nemesis.close()


def main(arguments: list[str]) -> int:
    """Be a nemesis for as long as asked; 0 if no promise was broken."""
    parser = argparse.ArgumentParser(prog="scripts/torture --cluster", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--only", default="", help="these faults, e.g. cut,promote")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--folder", type=Path, default=None, help="keep data and logs here")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="covey-nemesis-"))

    def tell(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    reason = why_not()
    if reason:
        tell(f"no packets are dropped: {reason}\n")
    kinds = given.only.split(",") if given.only else (FAULTS if reason else (*FAULTS, *OF_NETWORK))
    faults = [kinds[at % len(kinds)] for at in range(given.faults)]
    Random(given.seed).shuffle(faults)
    network = None if reason else Network()
    try:
        verdict = play(folder, given.seed, faults, tell, network)
    finally:
        if network is not None:
            network.close()
    tell(f"seed {given.seed}, {folder}\n{verdict}\n")
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
