"""Runner: one case on every contender, repetition by repetition in turn.

Contenders take turns, so that a slow minute of the machine affects all alike. Each repetition is a
new generator process on the contender's running broker. The first repetition of each contender is
thrown away (a JIT, caches). Each notes how much of the machine others used meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import count

from scripts.benchmark.contender import Contender
from scripts.benchmark.process import Process, machine_cpu_s

from covey.bench.flows import LATENCY, Case
from covey.bench.generator import ENVIRONMENT, generate
from covey.bench.load import UNDER_WAY_LINE, Outcome
from covey.bench.result import Result, percentile
from covey.bench.wire.link import Job

WARM_UPS = 1
US_PER_S = 1e6

# The load that runs beside any measured one: a queue that is never empty.
BESIDE = {
    "is_endless": True,
    "is_persistent": False,
    "is_confirmed": False,
    "ack": "auto",
    "credit": 0,
    "size": 128,
    "window": 20_000,
}

_numbers = count(1)  # of destinations


class Runner:
    """The contenders, started, and how often and how much to run."""

    def __init__(
        self, contenders: Sequence[Contender], repetitions: int, scale: float,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.repetitions = repetitions
        self.scale = scale
        self.say = say
        self.running: list[tuple[Contender, Process]] = []
        for contender in contenders:
            self.running.append((contender, contender.start()))

    def stop(self) -> None:
        """End all contenders."""
        for _, process in self.running:
            process.stop()

    def run(self, case: Case) -> list[Result]:
        """Run one case; a contender that fails once is out of it."""
        results = []
        taking_part = []
        for contender, process in self.running:
            if _can(contender, case):
                result = Result(case.name, contender.name, case.workload.unit)
                results.append(result)
                taking_part.append((contender, process, result))
        for turn in range(WARM_UPS + self.repetitions):
            for contender, process, result in taking_part:
                if not result.failure:
                    self._repeat(case, contender, process, result, keep=turn >= WARM_UPS)
        for result in results:
            self.say(_line(result))
        return results

    def _repeat(
        self, case: Case, contender: Contender, process: Process, result: Result, *, keep: bool
    ) -> None:
        job = self._job(case, contender, process)
        machine, broker, start = machine_cpu_s(), process.cpu_s(), time.monotonic()
        try:
            outcome, generator_s = self._generate(case, contender, process, job, result)
        except RuntimeError as error:
            result.failure = str(error)
            return
        if not keep:
            return
        broker_s = process.cpu_s() - broker
        ours = broker_s + generator_s
        spent = (time.monotonic() - start) * (os.cpu_count() or 1)
        result.others.append(max(0.0, (machine_cpu_s() - machine - ours) / spent))
        result.notes["resident_bytes"] = process.resident_bytes()
        # The broker's own processor time in the last repetition: a busy machine changes it less.
        result.notes["broker_cpu_us"] = broker_s / outcome.deliveries * US_PER_S
        result.notes["generator_share"] = outcome.cpu_s / outcome.elapsed_s
        _note(result, outcome)

    def _generate(
        self, case: Case, contender: Contender, process: Process, job: Job, result: Result
    ) -> tuple[Outcome, float]:
        """Run the generator, beside the load that the case asks for."""
        beside = case.workload.beside
        if beside is None:
            return generate(job)
        other = self._job(case, contender, process)
        fields = {**asdict(other), **BESIDE, **beside}
        with Background(Job(**fields)) as background:
            found = generate(job)
        result.notes["beside_per_s"] = background.rate
        return found[0], found[1] + background.cpu_s

    def _job(self, case: Case, contender: Contender, process: Process) -> Job:
        workload = case.workload
        fields = {"window": 20_000, **workload.job}
        fields["window"] = min(fields["window"], contender.window_max)
        destination = f"{workload.place}.{next(_numbers)}"
        if fields.get("sender", "stomp") != fields.get("receiver", "stomp"):
            other_name = destination.replace("/queue/", contender.foreign_queue)
            fields["sender_destination"] = other_name
        return Job(
            port=process.port,
            amqp_port=process.amqp_port,
            destination=destination,
            count=max(workload.count_min, int(workload.count * self.scale)),
            size=case.size,
            host=contender.host,
            user=contender.user,
            password=contender.password,
            keeps_groups=contender.keeps_groups,
            **fields,
        )


class Background:
    """A load without an end, in a process of its own, for the time of a `with` block."""

    def __init__(self, job: Job) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "covey.bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        self.job = job
        self.rate = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> Background:
        """Start the load and wait until it runs."""
        assert self.process.stdin is not None and self.process.stdout is not None
        json.dump(asdict(self.job), self.process.stdin)
        self.process.stdin.close()
        line = self.process.stdout.readline()
        if line != UNDER_WAY_LINE:
            self.process.wait()
            raise RuntimeError("the load beside did not get under way")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the load and read its figures."""
        assert self.process.stdout is not None
        self.process.terminate()
        text = self.process.stdout.read()
        self.process.wait()
        if text:
            outcome = Outcome(**json.loads(text))
            self.rate = outcome.deliveries / outcome.elapsed_s
            self.cpu_s = outcome.cpu_s


def _can(contender: Contender, case: Case) -> bool:
    kind = case.workload.name.partition(" ")[0]
    is_peer = not contender.name.startswith("covey")
    if kind in contender.cannot or case.workload.needs not in contender.speaks:
        return False
    return case.workload.is_for_peers or not is_peer


def _note(result: Result, outcome: Outcome) -> None:
    if result.unit != LATENCY:
        result.values.append(outcome.deliveries / outcome.elapsed_s)
        return
    result.values.append(percentile(outcome.round_trips_s, 0.5) * US_PER_S)
    worst = percentile(outcome.round_trips_s, 0.99) * US_PER_S
    result.notes["p99_us"] = max(worst, result.notes.get("p99_us", 0.0))


def _line(result: Result) -> str:
    line = f"{result.case:<32} {result.contender:<16} {result.text()} {result.unit}"
    if result.failure:
        return line
    if "p99_us" in result.notes:
        line += f", p99 {result.notes['p99_us']:.0f} at worst"
    line += f", {result.notes['broker_cpu_us']:.1f} us of processor each"
    line += f", {result.notes['resident_bytes'] / 1e6:.0f} MB"
    noisy = result.noisy()
    return line + (f", {noisy} of {len(result.values)} noisy" if noisy else "")
