"""Flaws: names and patterns that mean nothing are told with their place before a broker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.errors import ConfigError
from covey.config.load import load
from covey.config.queues import QueueSettings
from covey.core.management.settings_check import dead_letter_flaw, flaws

GROUPLESS = """\
[[queue]]
id = "urgent"
priorities = 5
[queue.groups]
strategy = "simple"
[[queue]]
id = "prices"
lvq_key = "symbol"
"""

WRONG = """\
[[queue]]
id = "{("
dlq = "a..b"
[[queue]]
id = "a,b"
[[queue]]
id = "dsub:{("
mirrored = true
[[topic]]
id = "x..y"
[[permission]]
who = ["*"]
may = ["send"]
on = "queue:{("
"""


def test_patterns_that_mean_nothing_are_told_all_at_once_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text(WRONG, "utf-8")
    with pytest.raises(ConfigError) as refusal:
        load(file, {}, {}, flaws)
    places = [(problem.line, problem.key) for problem in refusal.value.problems]
    assert places == [
        (2, "queue[0].id"),
        (3, "queue[0].dlq"),
        (5, "queue[1].id"),
        (7, "queue[2].id"),
        (8, "queue[2].mirrored"),
        (10, "topic[0].id"),
        (14, "permission[0].on"),
    ]
    assert "has no '}'" in refusal.value.problems[0].text


def test_a_strategy_on_a_queue_that_has_no_groups_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text(GROUPLESS, "utf-8")
    with pytest.raises(ConfigError) as refusal:
        load(file, {}, {}, flaws)
    assert str(refusal.value).endswith(
        "covey.toml:5: queue[0].groups.strategy:"
        " queue urgent: a queue with priorities has no message groups"
    )


@pytest.mark.parametrize("name", ["dead", "dead.*", "/queue/dead", "dead/letters", "dlq.*.old"])
def test_a_dead_letter_queue_may_be_written_as_clients_write_it(name: str) -> None:
    assert dead_letter_flaw(QueueSettings(dlq=name)) == ""


@pytest.mark.parametrize("name", ["x{", "/topic/x..y", "a,/topic/b", "temp.default.1.x", "a."])
def test_a_dead_letter_queue_nobody_could_read_is_refused(name: str) -> None:
    assert dead_letter_flaw(QueueSettings(dlq=name)) != ""


def test_no_dead_letter_queue_is_called_as_a_durable_subscription_is() -> None:
    assert dead_letter_flaw(QueueSettings(id="**", dlq="*.dead")) == ""
    assert "begins with dsub:" in dead_letter_flaw(QueueSettings(id="dsub:**", dlq="*.dead"))
    assert dead_letter_flaw(QueueSettings(id="dsub:**", dlq="dead.*")) == ""


def test_a_broken_record_of_a_password_is_told_with_its_line_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[user]]\nname = "ann"\npassword = "SCRAM-SHA-256$4096:salt$secret"\n')
    with pytest.raises(ConfigError) as refusal:
        load(file, {}, {}, flaws)
    (problem,) = refusal.value.problems
    assert str(problem) == f"{file}:3: user[0].password: starts like a SCRAM record and is none"
