"""The audit's lines: what stands in them, and that they cannot become a flood."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from covey.server.log_audit import LINES_PER_S, NAME_LENGTH_MAX, LogAudit


def test_each_line_names_who_what_and_where_from() -> None:
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        audit.denied("ann", "send", "queue:a", "192.0.2.1:1")
        audit.login_failed("", "192.0.2.1:2")
        audit.slow_consumer("ann", "192.0.2.1:3", 31.27)
        audit.producer_blocked("ann", "192.0.2.1:4", "queue a is full", 1.04)
        audit.group_trouble("a", "park", "order-17")
    assert [{k: v for k, v in line.items() if k != "log_level"} for line in lines] == [
        {
            "event": "denied",
            "user": "ann",
            "verb": "send",
            "destination": "queue:a",
            "remote": "192.0.2.1:1",
        },
        {"event": "login_failed", "user": "unknown", "remote": "192.0.2.1:2"},
        {"event": "slow_consumer", "user": "ann", "remote": "192.0.2.1:3", "waited_s": 31.3},
        {
            "event": "producer_blocked",
            "user": "ann",
            "remote": "192.0.2.1:4",
            "reason": "queue a is full",
            "waited_s": 1.0,
        },
        {"event": "group_trouble", "queue": "a", "trouble": "park", "group": "order-17"},
    ]


def test_a_long_name_is_cut() -> None:
    with capture_logs() as lines:
        LogAudit(structlog.get_logger()).denied("ann", "send", "queue:" + "x" * 5000, "r")
    assert len(lines[0]["destination"]) == NAME_LENGTH_MAX


def test_a_flood_is_counted_not_written() -> None:
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        for _ in range(LINES_PER_S * 20):
            audit.denied("ann", "send", "queue:a", "r")
    # The loop may see a second or two go by, each with lines of its own and one that counts.
    denials = [line for line in lines if line["event"] == "denied"]
    assert LINES_PER_S <= len(denials) <= LINES_PER_S * 10
