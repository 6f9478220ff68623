"""Virtual hosts of a real broker: each has its store, some come by a reload, one may end alone."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.e2e.support import Client, running_broker

HOST = """
[[virtual_host]]
id = "{id}"
host_names = ["{name}"]
"""
ONE = HOST.format(id="one", name="127.0.0.1")
TWO = HOST.format(id="two", name="two.example")
NO_ALARM = "[store]\ndisk_free_min = 0\ndisk_free_percent = 0\n"


def keep(client: Client, body: bytes) -> None:
    """Send a message that survives, and wait until it does."""
    client.send("SEND", {"destination": "/queue/q", "persistent": "true"}, body)
    client.sync()


def test_a_virtual_host_comes_by_a_reload_and_older_data_is_divided(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=NO_ALARM + ONE) as broker:
        with broker.client() as client:
            keep(client, b"of one")
            client.send("CONNECT", {})  # who is connected stays
            broker.folder.joinpath("covey.toml").write_text(NO_ALARM + ONE + TWO)
        with broker.client() as waiting:
            broker.process.send_signal(signal.SIGHUP)
            while "reloaded" not in broker.log:
                waiting.sync()
            with broker.client(host="two.example") as client:
                keep(client, b"of two")
            waiting.sync()
        assert broker.signal(signal.SIGTERM) == 0
    data = tmp_path / "data"
    assert {"one", "two"} <= {path.name for path in data.iterdir()}
    with running_broker(tmp_path, config=NO_ALARM + ONE + TWO) as broker:
        for host, body in (("127.0.0.1", b"of one"), ("two.example", b"of two")):
            with broker.client(host=host) as client:
                client.subscribe("/queue/q", ack="client")
                assert client.frame().body == body


def test_a_reload_that_cannot_open_a_virtual_host_changes_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=NO_ALARM + ONE) as broker:
        (tmp_path / "data" / "two").write_text("no directory")
        (tmp_path / "covey.toml").write_text(NO_ALARM + ONE + TWO)
        with broker.client() as waiting:
            broker.process.send_signal(signal.SIGHUP)
            while "reload_refused" not in broker.log:
                waiting.sync()
        broker.assert_serves()


def test_a_store_that_fails_ends_its_virtual_host_alone(tmp_path: Path) -> None:
    config = NO_ALARM + 'journal_size = "64k"\n' + ONE + TWO  # so that it is folded soon
    with running_broker(tmp_path, config=config) as broker:
        with broker.client(host="two.example") as client:
            keep(client, b"kept")
            with closing(sqlite3.connect(tmp_path / "data" / "two" / "covey.db")) as other:
                other.execute("drop table messages")
                other.commit()
            headers = {"destination": "/queue/q", "persistent": "true", "receipt": "r"}
            while (
                True
            ):  # each is a commit, after which a little is folded; the time limit bounds it
                client.send("SEND", headers, bytes(5000))
                error = client.frame()
                if error.command == "ERROR":
                    break
            assert b"the store of virtual host two failed" in error.block
        with Client(broker.port) as client:
            login = {"accept-version": "1.2", "host": "two.example"}
            client.send("CONNECT", login | {"login": "admin", "passcode": "password"})
            assert b"covey-code:unavailable" in client.frame().block
        broker.assert_serves()
        lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
        assert [line["host"] for line in lines if line["event"] == "store_failed"] == ["two"]
