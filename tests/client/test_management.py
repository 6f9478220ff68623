"""The management client against a real broker."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from covey.client import management
from covey.client.errors import AnswerError, DeniedError, UnreachableError
from covey.client.management import Management
from covey.client.place import Place, parse_place
from tests.cli.support import Terminal
from tests.e2e.support import running_broker
from tests.interop.amqp import amqp_port

LOGIN_ONLY = """
[[user]]
name = "shop"
password = "s"
[[permission]]
who = ["shop"]
may = ["connect"]
"""

TWO_HOSTS = """
[[virtual_host]]
id = "default"
host_names = ["localhost", "127.0.0.1"]
[[virtual_host]]
id = "shop"
host_names = ["shop.example"]
"""


def test_a_long_answer_is_asked_for_in_pages(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(management, "PAGE", 2)
    with Management(parse_place(terminal.amqp, 0)) as client:
        names = {f"page.{number}" for number in range(5)}
        for name in names:
            client.ask("CREATE", "queue", name)
        listed = [row["name"] for row in client.query("queue")]
        assert names <= set(listed)
        assert len(listed) == len(set(listed))


def test_who_may_log_in_but_not_manage_is_told_what_is_missing(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=LOGIN_ONLY) as broker:
        place = parse_place(f"shop/s@127.0.0.1:{amqp_port(broker)}", 0)
        with pytest.raises(DeniedError, match="user shop may not create queue:temp"):
            Management(place)


def test_a_virtual_host_is_named_behind_a_slash_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=TWO_HOSTS) as broker:
        port = amqp_port(broker)
        with Management(parse_place(f"127.0.0.1:{port}/shop.example", 0)) as client:
            client.ask("CREATE", "queue", "theirs")
            assert client.query("broker")[0]["host"] == "shop"
        with Management(parse_place(f"127.0.0.1:{port}", 0)) as client:
            assert "theirs" not in [row["name"] for row in client.query("queue")]
        with pytest.raises(AnswerError, match="no virtual host has the host name nowhere"):
            Management(parse_place(f"127.0.0.1:{port}/nowhere", 0))


def test_numbers_are_plain_numbers(terminal: Terminal) -> None:
    with Management(parse_place(terminal.amqp, 0)) as client:
        client.ask("CREATE", "queue", "numbers", {"arguments": {"qpid.max_count": 5}})
        row = client.read("queue", "numbers")
        assert type(row["messages"]) is int
        assert type(row["arguments"]["qpid.max_count"]) is int
        assert row["declared"] is True


def test_refusals_are_told_apart(terminal: Terminal) -> None:
    with Management(parse_place(terminal.amqp, 0)) as client:
        with pytest.raises(AnswerError, match="there is no queue none"):
            client.read("queue", "none")
        with pytest.raises(AnswerError, match="unknown operation"):
            client.ask("DANCE")
    with Management(parse_place(f"guest/guest@{terminal.amqp}", 0)) as guest:
        with pytest.raises(DeniedError, match="guest may not manage"):
            guest.query("queue")
    with pytest.raises(DeniedError, match="refused the login of guest") as refusal:
        Management(parse_place(f"guest/canary@{terminal.amqp}", 0))
    assert "canary" not in str(refusal.value)


def test_a_broker_that_goes_away_is_unreachable(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        place = Place(broker.host, amqp_port(broker), "admin", "password")
        with Management(place, timeout_s=5) as client:
            assert client.query("topic") == []
            broker.signal(signal.SIGKILL)
            with pytest.raises(UnreachableError):
                client.query("topic")
