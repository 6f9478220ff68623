"""A walk is the same each time, begins at the connection and ends there."""

from __future__ import annotations

import json
from functools import cache

import pytest
from scripts.tour.trace import Step
from scripts.tour.walk import WALKS, line, main, steps_of, summary


@cache
def taken(name: str) -> tuple[Step, ...]:
    return tuple(steps_of(name))


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_is_the_same_each_time(name: str) -> None:
    assert tuple(steps_of(name)) == taken(name)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_goes_from_the_socket_to_the_socket(name: str) -> None:
    steps = taken(name)
    assert line(steps[0]) == "the event loop -> protocols/connection.py: Connection.receive"
    assert {"core/queue/queue.py", "core/dispatch/dispatch.py"} <= {step.callee for step in steps}
    assert any(step.function.endswith("Engine.outgoing") for step in steps)


def test_only_a_persistent_message_meets_the_store() -> None:
    with_store = {
        name
        for name in WALKS
        if any(step.callee.startswith("core/storage/sqlite/") for step in taken(name))
    }
    assert with_store == {"persistent"}
    assert {step.thread for step in taken("persistent")} == {"MainThread", "covey-store"}


def test_every_call_is_between_two_files() -> None:
    assert [step for step in taken("stomp") if step.caller == step.callee] == []


def test_the_last_line_counts_calls_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ack"]) == 0
    lines = capsys.readouterr().out.splitlines()
    calls = [line for line in lines[:-2] if "the event loop" not in line]
    files = {line.split(" -> ")[1].partition(":")[0] for line in lines[:-2]}
    assert lines[-1] == f"{len(calls)} calls between {len(files)} files"
    assert lines[-1] == summary(taken("ack"))


def test_a_walk_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ack", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["walk"] == "ack"
    assert told["steps"][0]["callee"] == "protocols/connection.py"


@pytest.mark.parametrize("arguments", [[], ["swim"], ["stomp", "amqp"], ["stomp", "--xml"]])
def test_what_is_no_walk_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "stomp, amqp, persistent, ack" in capsys.readouterr().err
