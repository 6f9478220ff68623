"""Torture of the data source: a driver of streams and the broker are killed in turn, under load.

    in           a feeder sends numbered messages of some groups, each once
    files        a stream reads `in` into files
    out.fenced   another sends it on, by transactions with fences; the queue has no window
    out.window   a third sends it on without fences; the queue has a window of ids

The driver is a process with the real source and the real sink. It does what Spark's does: it notes
a batch's offsets before the batch, and that it is done after it; a batch without the second note is
done again. It is not Spark, which takes minutes to start on a busy machine, so that dozens of kills
take a minute. Its kill is SIGKILL. A kill of the broker is followed by another broker with the same
store and port. At last everything is read to its end. Then each of the three places must have every
message once, and each group in order. `scripts/torture --pipeline` runs this file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.streaming.datasource import ReadAllAvailable

from covey.pipeline.datasource.columns import SCHEMA
from covey.pipeline.datasource.offsets import Offsets
from covey.pipeline.datasource.options import read_options, write_options
from covey.pipeline.datasource.reader import StreamReader
from covey.pipeline.datasource.sink import send_partition
from covey.pipeline.places import put_text
from tests.e2e.support import BrokerProcess, running_broker
from tests.pipeline.queues import at, bodies_of

GROUPS: Final = 7
FEED_ROWS: Final = 100  # of one transaction of the feeder
FEED_EVERY_S: Final = 0.02
CALM_S: Final = (0.3, 3.0)  # between two kills
READY: Final = "ready"
STREAMS: Final = ("files", "out.fenced", "out.window")
CONFIG: Final = """
[[queue]]
id = "out.window"
duplicate_window = 1000000
"""


class Feeder(Thread):
    """Sends numbered messages to `in`, each once, until it is told to end."""

    def __init__(self, brokers: str) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.error: Exception | None = None
        self._brokers = brokers
        self._is_over = Event()

    def run(self) -> None:
        """Send one transaction after the other; each is repeated until it is confirmed."""
        names = ["value", "message_id", "group_id"]
        options = write_options({"brokers": self._brokers, "queue": "in"}, names)
        epoch = 0
        try:
            while not self._is_over.wait(FEED_EVERY_S):
                numbers = range(self.count + 1, self.count + 1 + FEED_ROWS)
                texts = [str(number) for number in numbers]
                groups = [f"g{number % GROUPS}" for number in numbers]
                batch = pa.RecordBatch.from_arrays(
                    [pa.array(texts)] * 2 + [pa.array(groups)], names
                )
                send_partition(options, [batch], "feeder", epoch)
                self.count += FEED_ROWS
                epoch += 1
        except Exception as error:
            self.error = error

    def end(self) -> int:
        """Stop; return how many messages were sent."""
        self._is_over.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.count


class Driver:
    """A process that runs the three streams."""

    def __init__(self, brokers: str, folder: Path, log: IO[str], *, is_last: bool = False) -> None:
        command = [sys.executable, "-P", "-m", "tests.pipeline.torture", "--driver", brokers]
        command += ["--folder", str(folder)] + ["--last"] * is_last
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )

    def becomes_ready(self) -> bool:
        """Wait until the streams begin; False if they cannot."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip() == READY

    def kill(self) -> None:
        """Kill it, in the middle of whatever it does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Stream:
    """One stream of the driver: batches of `in`, and where they go."""

    def __init__(self, brokers: str, folder: Path, name: str) -> None:
        self.name = name
        self.notes = folder / f"{name}.checkpoint"
        self.files = folder / "files"
        for place in (self.notes / "offsets", self.notes / "commits", self.files):
            place.mkdir(parents=True, exist_ok=True)
        given = {"brokers": brokers, "subscribe": "in", "startingOffsets": '{"in": 1}'}
        self.reader = StreamReader(read_options(given | {"minPartitions": "2"}, is_stream=True))
        is_fenced = str(name == "out.fenced").lower()
        sink = {"brokers": brokers, "queue": name, "exactlyOnce": is_fenced}
        self.sink = write_options(sink | {"transactionRows": "20"}, SCHEMA.fieldNames())

    def step(self) -> bool:
        """Do the batch that was begun and not ended, or else the next; False if there is none."""
        number = len(list((self.notes / "commits").iterdir()))
        before = (
            json.loads((self.notes / f"offsets/{number - 1}").read_text()) if number else {"in": 1}
        )
        noted = self.notes / f"offsets/{number}"
        if not noted.exists():
            end = self.reader.latestOffset(before, ReadAllAvailable())
            if end == before:
                return False
            put_text(noted, json.dumps(end))
        self._write(number, before, json.loads(noted.read_text()))
        put_text(self.notes / f"commits/{number}", "")
        return True

    def _write(self, number: int, start: Offsets, end: Offsets) -> None:
        parts = self.reader.partitions(start, end)
        rows = pa.Table.from_batches([one for part in parts for one in self.reader.read(part)])
        if self.name == "files":
            fresh = self.files / f"_{number}"
            pq.write_table(rows, fresh)
            fresh.rename(self.files / f"{number}.parquet")
            return
        for part in range(2):  # as `in_groups`: a group is in one partition
            groups = [f"g{group}" for group in range(GROUPS) if group % 2 == part]
            mine = rows.filter(pc.is_in(rows["group_id"], pa.array(groups)))
            send_partition(self.sink, mine.to_batches(), f"{self.name}-{part}", number)


def drive(brokers: str, folder: Path, *, is_last: bool) -> None:
    """Run the streams until killed; the last driver ends when all is read."""
    streams = [Stream(brokers, folder, name) for name in STREAMS]
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    is_busy = True
    while is_busy or not is_last:
        is_busy = any([stream.step() for stream in streams])


def under_way(folder: Path) -> list[str]:
    """Return the streams that have begun a batch and not ended it."""
    found = []
    for name in STREAMS:
        begun, ended = (
            {file.name for file in (folder / f"{name}.checkpoint" / part).glob("[0-9]*")}
            for part in ("offsets", "commits")
        )
        if begun - ended:
            found.append(name)
    return found


class Torture:
    """A broker, a feeder and a driver, and what was done to them."""

    def __init__(self, folder: Path, seed: int, processes: ExitStack) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.processes = processes
        self.broker = self._broker(())
        self.port = at(self.broker)
        self.hits = 0
        self._log = processes.enter_context((folder / "driver.log").open("w"))
        self.feeder = Feeder(self.port)
        self.feeder.start()
        self.driver = self._driver()

    def _broker(self, arguments: tuple[str, ...]) -> BrokerProcess:
        running = running_broker(self.folder / "broker", config=CONFIG, arguments=arguments)
        return self.processes.enter_context(running)

    def _driver(self, *, is_last: bool = False) -> Driver:
        driver = Driver(self.port, self.folder, self._log, is_last=is_last)
        self.processes.callback(driver.kill)
        assert driver.becomes_ready(), f"the driver ended: see {self._log.name}"
        return driver

    def kill(self) -> str:
        """Kill broker or driver after a while, and start it again; say what was hit."""
        time.sleep(self.chance.uniform(*CALM_S))
        is_driver = self.chance.random() < 0.5
        if is_driver:
            self.driver.kill()
        else:
            self.broker.signal(signal.SIGKILL)
        hit = under_way(self.folder)
        self.hits += bool(hit)
        if not is_driver:
            self.broker = self._broker(("--stomp", self.port))
        assert is_driver or self.driver.process.poll() is None, f"see {self._log.name}"
        if is_driver:
            self.driver = self._driver()
        what = "driver" if is_driver else "broker"
        return f"{what}, in a batch of {', '.join(hit) or 'none'}; {self.feeder.count:,} sent"

    def account(self) -> list[str]:
        """Read all to the end; return what is wrong."""
        sent = self.feeder.end()
        self.driver.kill()
        assert not self._driver(is_last=True).process.wait(), f"see {self._log.name}"
        wrong = [*judged("in", bodies_of(self.broker, "in"), sent, is_ordered=True)]
        for name in STREAMS[1:]:
            wrong += judged(name, bodies_of(self.broker, name), sent, is_ordered=True)
        files = self.folder / "files"
        values = [
            value
            for file in files.glob("*.parquet")
            for value in pq.read_table(file, columns=["value"])["value"].to_pylist()
        ]
        return wrong + list(judged("files", values, sent, is_ordered=False))


def judged(name: str, bodies: list[bytes], sent: int, *, is_ordered: bool) -> Iterator[str]:
    """Yield what is wrong with what has come to one place."""
    numbers = [int(body) for body in bodies]
    lost = set(range(1, sent + 1)) - set(numbers)
    if lost:
        yield f"{name}: {len(lost)} lost, the first is {min(lost)}"
    if len(numbers) != len(set(numbers)):
        yield f"{name}: {len(numbers) - len(set(numbers))} doubled"
    if set(numbers) - set(range(1, sent + 1)):
        yield f"{name}: it has what nobody sent"
    for group in range(GROUPS):
        mine = [number for number in numbers if number % GROUPS == group]
        if is_ordered and mine != sorted(mine):
            yield f"{name}: group g{group} is out of order"


def torture(kills: int, seed: int, folder: Path) -> int:
    """Kill so many times; return 1 if something is lost, doubled or out of order."""
    warnings.filterwarnings("ignore", ".*trying again")
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began:.0f} s] {text}\n")
        sys.stdout.flush()

    say(f"seed {seed}, {kills} kills, folder {folder}")
    with ExitStack() as processes:
        all_of_it = Torture(folder, seed, processes)
        for number in range(1, kills + 1):
            say(f"{number} of {kills}: {all_of_it.kill()}")
        say("reading all to the end")
        wrong = all_of_it.account()
        sent, hits = all_of_it.feeder.count, all_of_it.hits
    for text in wrong:
        say(text)
    verdict = "BROKEN" if wrong else "0 lost, 0 doubled, each group in order"
    say(f"{kills} kills, {hits} during a batch, {sent:,} messages to three places: {verdict}")
    return 1 if wrong else 0


def main() -> int:
    """Read the command line."""
    parser = ArgumentParser(prog="scripts/torture --pipeline")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--driver", default="", help="be the driver, of the broker at this address")
    parser.add_argument("--last", action="store_true", help="a driver that ends")
    options = parser.parse_args()
    if options.driver:
        drive(options.driver, options.folder, is_last=options.last)
        return 0
    folder = options.folder or Path(mkdtemp(prefix="covey-torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    return torture(options.kills, options.seed, folder)


if __name__ == "__main__":
    sys.exit(main())
