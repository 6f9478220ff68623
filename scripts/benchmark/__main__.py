"""The command: `scripts/bench [workload ...]`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from scripts.benchmark import report
from scripts.benchmark.contender import Contender, Covey, Sink
from scripts.benchmark.options import parser
from scripts.benchmark.peers import PEERS, cores
from scripts.benchmark.process import StartError
from scripts.benchmark.runner import Runner
from scripts.benchmark.workloads import (
    backlog,
    balance,
    dispatch,
    growth,
    memory,
    objects,
    pace,
    turns,
)
from scripts.benchmark.workloads.workloads import NAMES, cases

from covey.bench.flows import Case
from covey.bench.result import Result

SINK_CASES = ("queue", "individual", "topic")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit code is 1 if any run lost or reordered messages."""
    given = sys.argv[1:] if argv is None else list(argv)
    arguments = parser().parse_args(given)
    signal.signal(signal.SIGTERM, _end)  # by `timeout`, for example: the brokers must end, too
    results = [*_earlier(arguments.earlier), *_run(arguments)]
    if arguments.json:
        text = json.dumps([asdict(result) for result in results], indent=1)
        arguments.json.write_text(text + "\n")
    if arguments.report:
        report.write(arguments.report, results, arguments=_shown(given), processor=cores())
    return int(any(result.failure for result in results if report.is_ours(result)))


def _earlier(files: Sequence[Path]) -> list[Result]:
    """Read what earlier runs wrote."""
    return [Result(**each) for file in files for each in json.loads(file.read_text())]


def _shown(given: Sequence[str]) -> str:
    """Return the command as a person would type it, without this machine's path of a build."""
    shown = list(given)
    for option in ("--build", "--earlier", "--json"):
        while option in shown:
            at = shown.index(option)
            del shown[at : at + 2]
    return " ".join(shown)


def _run(arguments: argparse.Namespace) -> list[Result]:
    names = arguments.workloads or list(NAMES)
    unknown = [name for name in names if name.partition(" ")[0] not in NAMES]
    if unknown:
        raise SystemExit(f"unknown workload {', '.join(unknown)}: there are {', '.join(NAMES)}")
    builds = [Covey(), *map(named_build, arguments.build)]
    contenders: list[Contender] = [*builds, *_peers(arguments.peers)]
    chosen = list(cases(names, tuple(arguments.size) if arguments.size else None))
    results = _flows(chosen, contenders, arguments) if chosen else []
    if "dispatch" in names:
        results += dispatch.measure(_say)
    if "memory" in names:
        results += memory.measure(contenders, _say)
    if "objects" in names:
        results += objects.measure(builds, _say)
    if "backlog" in names:
        results += backlog.measure(builds, arguments.scale, _say)
    if "turns" in names:
        results += turns.measure(builds[-1:], arguments.scale, arguments.part, _say)
    if "pace" in names:
        settings = (arguments.repetitions, arguments.scale, _say, arguments.picture)
        results += pace.measure(contenders, *settings)
    if "growth" in names:
        results += growth.measure(contenders, arguments.scale, _say)
    if "balance" in names:
        results += balance.measure(_say, None if "pace" in names else arguments.picture)
    if "pipeline" in names:
        results += _pipeline(builds, arguments)
    return results


def named_build(text: str) -> Covey:
    """Return the build that an option names: NAME=FOLDER, and settings as variables."""
    name, _, rest = text.partition("=")
    package, *variables = rest.split(",")
    settings = dict(variable.split("=", 1) for variable in variables)
    return Covey(f"covey {name}", package, settings=settings)


def _pipeline(builds: list[Covey], arguments: argparse.Namespace) -> list[Result]:
    """Measure the data pipeline, if its packages are installed; the broker does not need them."""
    if find_spec("pyspark") is None:
        _say("pipeline is skipped: scripts/setup pipeline installs what it needs")
        return []
    from scripts.benchmark.workloads import pipeline

    return pipeline.measure(builds[-1], arguments.repetitions, arguments.scale, _say)


def _flows(
    chosen: list[Case], contenders: list[Contender], arguments: argparse.Namespace
) -> list[Result]:
    """First show how fast the generator is, then run all contenders."""
    proofs = [case for case in chosen if case.workload.name in SINK_CASES]
    results = _take_turns([Sink()], proofs, arguments)
    return results + _take_turns(contenders, chosen, arguments)


def _take_turns(
    contenders: list[Contender], chosen: list[Case], arguments: argparse.Namespace
) -> list[Result]:
    runner = Runner(contenders, arguments.repetitions, arguments.scale, _say)
    try:
        return [result for case in chosen for result in runner.run(case)]
    finally:
        runner.stop()


def _peers(text: str) -> list[Contender]:
    """Return the peers asked for that are installed; name the others."""
    found: list[Contender] = []
    for name in filter(None, text.split(",")):
        if name not in PEERS:
            raise SystemExit(f"unknown peer {name}: there are {', '.join(PEERS)}")
        peer = PEERS[name]()
        lacking = peer.missing()
        if lacking:
            _say(f"{name} is not installed and skipped ({lacking})")
        else:
            found.append(peer)
    return found


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit("ended by a signal")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StartError as error:
        sys.exit(f"scripts/bench: {error}")
