"""`covey top`."""

from __future__ import annotations

from tests.cli.support import Terminal


def test_two_looks_show_queues_rates_and_waiting_groups(terminal: Terminal) -> None:
    terminal.covey("message", "send", "top", "x", "--group", "waiting")
    said = terminal.covey("top", "--count", "2", "--interval", "0.01")
    assert said.code == 0
    assert said.out.count("broker default") == 2
    heads = [line.split() for line in said.lines if line.startswith("queue ")]
    assert heads[0][-2:] == ["in/s", "out/s"]
    assert any(line.split()[:2] == ["waiting", "top"] for line in said.lines if line)
    assert "temp." not in said.out
