"""`covey bench`: a running broker is measured, and what it measures is checked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from covey.bench.flows import TABLE
from covey.cli.upkeep.bench import FLOWS, USUAL, is_ordered
from tests.cli.support import Said, Terminal
from tests.e2e.support import HOST

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def bench(terminal: Terminal, *words: str) -> Said:
    places = ("-b", terminal.stomp, "--amqp-broker", terminal.amqp)
    return terminal.run_covey("bench", *words, *places)


def test_every_usual_workload_runs_in_both_protocols(terminal: Terminal) -> None:
    said = bench(terminal, "--messages", "200", "--repetitions", "2", "--groups", "7", "--json")
    assert said.code == 0, said.err
    results = {each["workload"]: each for each in json.loads(said.out)}
    assert tuple(results) == USUAL
    assert all(len(each["per_second"]) == 2 and not each["failure"] for each in results.values())
    assert 0 < results["amqp-latency"]["p50_ms"] <= results["amqp-latency"]["p99_ms"]


def test_the_table_says_what_was_checked(terminal: Terminal) -> None:
    said = bench(terminal, "queue", "individual", "--messages", "100", "--repetitions", "1")
    head, queue, individual = said.lines
    assert head.split() == [
        "workload", "size", "per_second", "lowest", "highest", "p50_ms", "p99_ms", "came",
    ]  # fmt: skip
    assert queue.startswith("queue ") and queue.endswith("all, in order")
    assert individual.startswith("individual ") and individual.endswith("all")


def test_a_login_that_is_refused_makes_it_fail(terminal: Terminal) -> None:
    place = terminal.stomp
    said = terminal.run_covey("bench", "queue", "-b", f"nobody/wrong@{place}", "--messages", "10")
    assert said.code == 1
    assert "queue:" in said.err and "failed" in said.out


def test_nobody_there_and_wrong_words_have_their_exit_codes(terminal: Terminal) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    assert terminal.run_covey("bench", "queue", "-b", f"{HOST}:{port}").code == 3
    assert terminal.run_covey("bench", "nothing").code == 2
    assert terminal.run_covey("bench", "--size", "3").code == 2
    assert terminal.run_covey("bench", "queue", "-b", "tls://localhost").code == 2


@pytest.mark.slow  # ten seconds of waiting
@pytest.mark.parametrize("flow", ["queue", "amqp"])
def test_who_takes_a_connection_and_says_nothing_is_told_from_a_failure(
    terminal: Terminal, flow: str
) -> None:
    with socket.create_server((HOST, 0)) as frozen:
        place = f"{HOST}:{frozen.getsockname()[1]}"
        said = terminal.run_covey("bench", flow, "-b", place, "--amqp-broker", place)
    assert said.code == 3
    assert f"{flow}: {place} does not answer" in said.err


@pytest.mark.parametrize("name", ["topic", "amqp-to-stomp", "durable-1"])
def test_the_other_workloads_run_too(terminal: Terminal, name: str) -> None:
    said = bench(terminal, name, "--messages", "50", "--repetitions", "1")
    assert said.code == 0, said.err


def test_order_is_said_to_be_checked_only_where_there_is_one() -> None:
    assert is_ordered(FLOWS["queue"].job) and is_ordered(FLOWS["amqp-groups"].job)
    assert not is_ordered(FLOWS["individual"].job) and not is_ordered(FLOWS["connections"].job)
    assert set(USUAL) <= {flow.name for flow in TABLE}


def test_the_generator_needs_the_package_alone() -> None:
    """It runs where only the package is, as an installed wheel has it."""
    code = "import covey.bench.load, sys; print([m for m in sys.modules if 'scripts' in m])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, cwd="/",
        env={"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.stdout == "[]\n"
