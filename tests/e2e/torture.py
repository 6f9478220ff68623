"""Torture: a broker under mixed load is killed again and again, and every message is accounted for.

A round starts the real process on the same data directory, lets four producers and four consumers
work (STOMP and AMQP, one by one and in transactions of both), and kills it with SIGKILL at a random
moment. After the last round the queues are drained and the checker reads the logs.

    python -m tests.e2e.torture [--kills N | --minutes N] [--seed N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.e2e.amqp_workers import AmqpCopyingConsumer, AmqpTransactionProducer
from tests.e2e.checker import Verdict, check, read_logs
from tests.e2e.support import BrokerProcess, running_broker
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
from tests.interop.amqp import amqp_port

LIFE_MIN_S = 0.0  # of a broker, from the moment at which all its clients are at work
LIFE_MAX_S = 0.8
EARLY_SHARE = 0.2  # of lives that end while clients are still connecting, maybe
BUSY_S = 20.0  # patience with a machine that runs other tests, too
JOIN_S = 30.0
LOOK_S = 0.02  # how often workers are looked at
QUIET_S = 1.0  # without a delivery a queue counts as drained
CONFIG = '[store]\ndisk_free_min = "0"\ndisk_free_percent = 0\n'
PRODUCERS: dict[str, type[Producer]] = {
    "stomp": StompProducer,
    "transaction": TransactionProducer,
    "amqp": AmqpProducer,
    "amqp-transaction": AmqpTransactionProducer,
}
CONSUMERS = ("reader", "copier", "accepter", "amqp-copier")


class Torture:
    """One data directory and its clients, over many lives of the broker."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.seed = seed
        self.kills = 0
        self.ended_s = 0.0  # the longest end
        self.numbers = dict.fromkeys(PRODUCERS, 0)
        logs = folder / "clients"
        logs.mkdir(parents=True, exist_ok=True)
        names = (*PRODUCERS, *CONSUMERS, "drain", "drain-copies")
        self.logs = {name: Log(logs, name) for name in names}

    def round(self, number: signal.Signals = signal.SIGKILL) -> int:
        """Let a broker live for a moment under load; return how it ended."""
        with running_broker(self.folder, config=CONFIG) as broker:
            workers = self._start(broker)
            if self.random.random() >= EARLY_SHARE:
                self._until_busy(workers)
            time.sleep(self.random.uniform(LIFE_MIN_S, LIFE_MAX_S))
            told = time.monotonic()
            broker.process.send_signal(number)
            code = broker.process.wait(JOIN_S)
            self.ended_s = max(self.ended_s, time.monotonic() - told)
            self._join(workers)
        self.kills += 1
        return code

    def finish(self) -> Verdict:
        """Drain everything, and judge."""
        with running_broker(self.folder, config=CONFIG) as broker:
            for name, queue in (("drain", None), ("drain-copies", COPIES)):
                options = {} if queue is None else {"queue": queue}
                worker = StompConsumer(name, self.logs[name], 0, broker.port, **options)
                worker.start()
                self._until_quiet(worker)
                worker.is_stopping = True
                self._join([worker])
        for log in self.logs.values():
            log.close()
        return check(read_logs(self.folder / "clients"))

    def _start(self, broker: BrokerProcess) -> list[Worker]:
        stomp, amqp = broker.port, amqp_port(broker)
        workers: list[Worker] = []
        for name, kind in PRODUCERS.items():
            port = amqp if name.startswith("amqp") else stomp
            seed = self.random.randrange(2**32)
            workers.append(kind(name, self.logs[name], seed, port, self.numbers[name]))
        workers.append(StompConsumer("reader", self.logs["reader"], 0, stomp))
        seed = self.random.randrange(2**32)
        workers.append(CopyingConsumer("copier", self.logs["copier"], seed, stomp))
        workers.append(AmqpConsumer("accepter", self.logs["accepter"], 0, amqp))
        seed = self.random.randrange(2**32)
        workers.append(AmqpCopyingConsumer("amqp-copier", self.logs["amqp-copier"], seed, amqp))
        for worker in workers:
            worker.start()
        return workers

    def _until_busy(self, workers: list[Worker]) -> None:
        """Wait until every producer has had an answer and every consumer a message."""
        until = time.monotonic() + BUSY_S
        while not all(worker.done or worker.trouble for worker in workers):
            if time.monotonic() > until:
                idle = [worker.name for worker in workers if not worker.done]
                raise AssertionError(f"{', '.join(idle)} did nothing in {BUSY_S} s")
            time.sleep(LOOK_S)

    def _join(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.is_stopping = True
        for worker in workers:
            worker.join(JOIN_S)
            assert not worker.is_alive(), f"{worker.name} hangs"
            if worker.trouble is not None:
                raise AssertionError(f"{worker.name} was told nonsense") from worker.trouble
            if isinstance(worker, Producer):
                self.numbers[worker.name] = worker.number

    def _until_quiet(self, worker: Worker) -> None:
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            if worker.done != seen:
                seen, since = worker.done, time.monotonic()
            time.sleep(QUIET_S / 10)


def main(arguments: list[str]) -> int:
    """Torture for as long as asked; 0 if nothing was lost."""
    parser = argparse.ArgumentParser(prog="scripts/torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=0, help="how many times (default 100)")
    parser.add_argument("--minutes", type=float, default=0.0, help="for how long instead")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--folder", type=Path, default=None, help="keep data and logs here")
    given = parser.parse_args(arguments)
    kills = given.kills or (0 if given.minutes else 100)
    until = time.monotonic() + 60 * given.minutes
    folder = given.folder or Path(tempfile.mkdtemp(prefix="covey-torture-"))
    torture = Torture(folder, given.seed)
    started = time.monotonic()
    while torture.kills < kills or (not kills and time.monotonic() < until):
        torture.round()
        sent = sum(torture.numbers.values())
        elapsed = time.monotonic() - started
        sys.stdout.write(f"\r{torture.kills} kills, {sent} messages, {elapsed:.0f} s ")
        sys.stdout.flush()
    verdict = torture.finish()
    sys.stdout.write(f"\nseed {given.seed}, {folder}\n{verdict}\n")
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
