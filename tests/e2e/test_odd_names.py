"""Queues and groups with names of every odd kind, through every protocol, the store and the log."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pyarrow.dataset as ds
import pytest
from proton import Message
from proton.utils import BlockingConnection

from covey.core.events.event import EventKind
from tests.e2e.support import HOST, LOGIN, PASSCODE, BrokerProcess, running_broker

# Any name goes: the rules that STOMP's manual has for names are off.
CONFIG = """
[event_log]
dir = "events"
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "127.0.0.1:0"
[connector.stomp]
strict_names = false
[[connector]]
id = "amqp"
protocol = "amqp"
bind = "127.0.0.1:0"
[[connector]]
id = "http"
protocol = "http"
bind = "127.0.0.1:0"
"""
AMQP, HTTP = 1, 2  # places in the welcome
LONG = 1024

GROUPS = [
    *(" ", "  padded  ", "\t", "a\nb", "a\rb", "a:b", "a\\b", "a/b", "%2F", "\"'", "<script>"),
    *("\u202eabc", "\ufeffx", "e\u0301", "\x7f", "\u2028", "\uffff", "\U0001f426" * 256),
    *("g" * LONG, "-", "0", "null", "*", "**", "{a}", "a,b", "a;b", "..", "'; drop table messages"),
]
QUEUES = [
    *("a b", "\u00e4", "\U0001f426", "a%2Fb", "%00", "a%0Ab", "a%09b", "%22", "a%25", "%2E", "-"),
    *("%FF", "%ED%A0%80", "a:b", "~%21%40%23%24%26()%2B", "x" * 1000),
]
REFUSED_QUEUES = ["", ".", "a..b", "a.", "x" * 1025]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker that took all of it over STOMP, AMQP and HTTP, and ended."""
    folder = tmp_path_factory.mktemp("odd")
    with running_broker(folder, config=CONFIG) as broker:
        send_by_stomp(broker)
        send_by_amqp(broker)
        send_by_http(broker)
        assert "Traceback" not in broker.log
        assert broker.signal(signal.SIGTERM) == 0
    return folder


def send_by_stomp(broker: BrokerProcess) -> None:
    with broker.client() as client:
        for number, group in enumerate(GROUPS):
            headers = {"destination": "/queue/odd", "persistent": "true", "number": str(number)}
            client.send("SEND", headers | {"message_group": group}, b"stomp")
        for name in QUEUES:
            client.send("SEND", {"destination": f"/queue/{name}", "persistent": "true"}, b"stomp")
        client.sync()


def send_by_amqp(broker: BrokerProcess) -> None:
    connection = BlockingConnection(f"amqp://{LOGIN}:{PASSCODE}@{HOST}:{broker.port_of(AMQP)}")
    sender = connection.create_sender("odd")
    for number, group in enumerate(GROUPS):
        message = Message(body=b"amqp", durable=True, properties={"number": str(number)})
        message.group_id = group
        sender.send(message)
    connection.close()


def send_by_http(broker: BrokerProcess) -> None:
    with client_of(broker) as http:
        for number, group in enumerate(GROUPS):
            body = {"body": "http", "persistent": True, "group": group}
            body["properties"] = {"number": str(number)}
            assert http.post("/api/v1/queues/odd/messages", json=body).status_code == 201


def client_of(broker: BrokerProcess) -> httpx.Client:
    base = f"http://{HOST}:{broker.port_of(HTTP)}"
    return httpx.Client(base_url=base, auth=(LOGIN, PASSCODE))


def test_every_group_is_one_for_all_protocols_and_over_a_restart(folder: Path) -> None:
    with running_broker(folder, config=CONFIG) as broker:
        with client_of(broker) as http:
            shown = http.get("/api/v1/queues/odd/groups").json()["items"]
            assert {one["group"]: one["messages"] for one in shown} == dict.fromkeys(GROUPS, 3)
            for group in GROUPS:
                name = quote(group, safe="").replace(".", "%2E")  # `..` is the client's own word
                shown = http.get(f"/api/v1/queues/odd/groups/{name}").json()
                assert shown["group"] == group
        with broker.client() as client:
            client.subscribe("/queue/odd")
            for _ in range(3 * len(GROUPS)):
                frame = client.frame()
                headers = frame.headers(client.version)
                assert headers["message_group"] == GROUPS[int(headers["number"])], frame.block
        assert "Traceback" not in broker.log


def test_every_queue_is_found_by_its_name_over_a_restart(folder: Path) -> None:
    with running_broker(folder, config=CONFIG) as broker:
        with client_of(broker) as http:
            names = {one["name"] for one in http.get("/api/v1/queues").json()["items"]}
        assert len(names - {"odd"}) == len(QUEUES)
        assert {unquote(name, errors="surrogateescape") for name in names - {"odd"}} == {
            unquote(name, errors="surrogateescape") for name in QUEUES
        }
        for name in QUEUES:
            with broker.client() as client:
                client.subscribe(f"/queue/{name}")
                assert client.frame().body == b"stomp"
        for name in REFUSED_QUEUES:
            with broker.client() as client:
                client.send("SEND", {"destination": f"/queue/{name}"}, b"x")
                assert client.frame().command == "ERROR"
        assert "Traceback" not in broker.log


def test_the_event_log_has_the_same_names(folder: Path) -> None:
    log = folder / "events"
    until = time.monotonic() + 20
    while list(log.glob("*.tmp")) and time.monotonic() < until:
        time.sleep(0.1)
    table = ds.dataset(str(log), exclude_invalid_files=True).to_table()
    rows = [row for row in table.to_pylist() if row["kind"] != EventKind.POLICY]
    of_odd = [row for row in rows if row["queue"] == "odd"]
    assert {row["group_id"] for row in of_odd} - {""} == set(GROUPS)
