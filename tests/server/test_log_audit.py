"""The audit's lines: what stands in them, and that they cannot become a flood."""

from __future__ import annotations

from dataclasses import replace

import structlog
from structlog.testing import capture_logs

from covey.core.events.audit import FAILED, OK, REFUSED, OperatorAction
from covey.server.log_audit import LINES_PER_S, NAME_LENGTH_MAX, LogAudit

PURGE = OperatorAction("ann", "192.0.2.1:1", "http", "purge", "queue", "default", "a", OK, count=7)


def test_each_line_names_who_what_and_where_from() -> None:
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        audit.denied("ann", "send", "queue:a", "192.0.2.1:1")
        audit.login_failed("", "192.0.2.1:2")
        audit.slow_consumer("ann", "192.0.2.1:3", 31.27)
        audit.producer_blocked("ann", "192.0.2.1:4", "queue a is full", 1.04)
        audit.group_trouble("a", "park", "order-17")
        audit.subscription_ended("ann", "192.0.2.1:5", "s", "too many")
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
        {
            "event": "subscription_ended",
            "user": "ann",
            "remote": "192.0.2.1:5",
            "subscription": "s",
            "reason": "too many",
        },
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


def test_an_action_is_told_with_all_that_is_known_of_it() -> None:
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        audit.operator_action(PURGE)
        audit.operator_action(replace(PURGE, result=FAILED, reason="x" * 5000, name="y" * 5000))
    assert lines[0] == {
        "event": "operator_action",
        "log_level": "info",
        "user": "ann",
        "remote": "192.0.2.1:1",
        "protocol": "http",
        "action": "purge",
        "kind": "queue",
        "host": "default",
        "name": "a",
        "result": "ok",
        "count": 7,
    }
    assert lines[1]["log_level"] == "warning"
    assert (len(lines[1]["name"]), len(lines[1]["reason"])) == (NAME_LENGTH_MAX, NAME_LENGTH_MAX)


def test_no_action_that_was_done_is_left_out() -> None:
    count = LINES_PER_S * 20
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        for _ in range(count):
            audit.denied("ann", "send", "queue:a", "r")
            audit.operator_action(PURGE)
    assert len([line for line in lines if line["event"] == "operator_action"]) == count


def test_refused_actions_have_a_limit_of_their_own() -> None:
    with capture_logs() as lines:
        audit = LogAudit(structlog.get_logger())
        for _ in range(LINES_PER_S * 20):
            audit.denied("ann", "send", "queue:a", "r")
        for _ in range(LINES_PER_S * 20):
            audit.operator_action(replace(PURGE, result=REFUSED))
    # As above: the loop may see a second or two go by.
    refusals = [line for line in lines if line["event"] == "operator_action"]
    assert LINES_PER_S <= len(refusals) <= LINES_PER_S * 10
