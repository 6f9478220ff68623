"""One connection: login, limits, errors."""

from __future__ import annotations

import pytest
import structlog
from pydantic import SecretStr
from structlog.testing import capture_logs

from covey.config.settings import StompSettings, UserSettings, VirtualHostSettings
from covey.protocols.engine import FIELD_MAX
from tests.protocols.stomp.support import World, frame

LOGIN = {"login": "admin", "passcode": "password"}


# Login.


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(
    ("offered", "version"),
    [("1.0", "1.0"), ("1.1", "1.1"), ("1.2", "1.2"), ("1.0,1.1,1.2", "1.2"), ("1.1,2.0", "1.1")],
)
def test_s1_the_highest_common_version_is_spoken(command: str, offered: str, version: str) -> None:
    client = World().stranger()
    client.send(command, {"accept-version": offered, "host": "localhost", **LOGIN})
    assert client.take("CONNECTED")["version"] == version


def test_s1_no_common_version_is_an_error_that_lists_ours() -> None:
    client = World().stranger()
    client.send("CONNECT", {"accept-version": "2.0", "host": "localhost", **LOGIN})
    assert client.error()["version"] == "1.2,1.1,1.0"


def test_connected_names_the_session_the_host_and_the_user() -> None:
    client = World().stranger()
    client.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **LOGIN})
    connected = client.take("CONNECTED")
    assert (connected["session"], connected["host-id"]) == ("1", "default")
    assert connected["user-id"] == "admin"
    assert connected["server"].startswith("covey/")


@pytest.mark.parametrize(
    "headers",
    [{}, {"login": "admin"}, {"login": "admin", "passcode": "x"}, {"login": "x", "passcode": "y"}],
)
def test_s21_only_known_users_may_connect(headers: dict[str, str]) -> None:
    client = World().stranger()
    client.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **headers})
    assert client.error()["covey-code"] == "denied"


def hosts() -> tuple[VirtualHostSettings, ...]:
    return (
        VirtualHostSettings(id="first", host_names=("localhost",)),
        VirtualHostSettings(id="second", host_names=("b.example", "B2.example")),
    )


@pytest.mark.parametrize(
    ("version", "headers", "host"),
    [
        ("1.0", {}, "first"),
        ("1.1", {}, "first"),
        ("1.1", {"host": "b.example"}, "second"),
        ("1.2", {"host": "b2.EXAMPLE"}, "second"),
    ],
)
def test_s22_s23_the_host_header_picks_the_virtual_host(
    version: str, headers: dict[str, str], host: str
) -> None:
    client = World(hosts=hosts()).stranger()
    client.send("CONNECT", {"accept-version": version, **headers, **LOGIN})
    assert client.take("CONNECTED")["host-id"] == host


def test_s23_an_unknown_host_ends_the_connection() -> None:
    client = World(hosts=hosts()).stranger()
    client.send("CONNECT", {"accept-version": "1.2", "host": "c.example", **LOGIN})
    assert "c.example" in client.error()["message"]


def test_require_host_refuses_clients_that_name_none() -> None:
    client = World(stomp=StompSettings(require_host=True)).stranger()
    client.send("CONNECT", {"accept-version": "1.1", **LOGIN})
    assert "host" in client.error()["message"]


def test_virtual_hosts_share_nothing() -> None:
    world = World(hosts=hosts())
    here, there = world.connect(), world.connect(host="b.example")
    here.publish("/queue/a", "x")
    there.subscribe("/queue/a")
    assert there.bodies() == []
    there.publish("/queue/a", "y", reply_to="/temp-queue/x")
    here.publish(there.take()["reply-to"], "z", receipt="r")
    assert here.receipts() == ["r"]
    assert list(world.broker.host.queues) == ["a"]


def test_a_frame_before_connect_is_refused() -> None:
    client = World().stranger()
    client.publish("/queue/a", "x", receipt="r")
    error = client.error()
    assert "before CONNECT" in error["message"]
    assert error["receipt-id"] == "r"


@pytest.mark.parametrize("headers", [{"accept-version": "1.2", "host": "localhost", **LOGIN}, {}])
def test_a_second_connect_is_refused(headers: dict[str, str]) -> None:
    client = World().connect()
    client.send("CONNECT", headers)
    assert "connected already" in client.error()["message"]


def test_a_connect_may_ask_for_a_receipt() -> None:
    client = World().stranger()
    client.send("CONNECT", {"accept-version": "1.2", "host": "localhost", "receipt": "r", **LOGIN})
    client.take("CONNECTED")
    assert client.receipts() == ["r"]


def test_connections_per_user_max_holds_for_one_user() -> None:
    users = (
        UserSettings(name="admin", password=SecretStr("password")),
        UserSettings(name="eve", password=SecretStr("password")),
    )
    world = World(users=users, limits={"connections_per_user_max": 1})
    world.connect()
    world.connect(login="eve")
    third = world.stranger()
    third.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **LOGIN})
    assert "connections_per_user_max" in third.error()["message"]


# Before login.


def test_a_stranger_is_given_ten_seconds() -> None:
    world = World()
    client = world.stranger()
    world.wait(9.9)
    assert not client.engine.is_closed
    world.wait(0.1)
    assert "CONNECT" in client.error()["message"]


@pytest.mark.parametrize(("headers", "is_fine"), [(30, True), (31, False)])
def test_a_stranger_may_send_thirty_headers(headers: int, is_fine: bool) -> None:
    client = World().stranger()
    fillers = {f"h{number}": "x" for number in range(headers - 4)}
    client.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **LOGIN, **fillers})
    assert client.engine.is_closed is not is_fine


def test_a_stranger_may_send_64_kib() -> None:
    client = World().stranger()
    client.feed(b"CONNECT\n" + b"a:" + b"x" * 9000 + b"\n")
    assert not client.engine.is_closed
    client.feed((b"a:" + b"x" * 9000 + b"\n") * 7)
    assert "65536" in client.error()["message"]


# After login.


@pytest.mark.parametrize(("length", "is_fine"), [(10240, True), (10241, False)])
def test_s6_a_header_line_has_at_most_10240_bytes(length: int, is_fine: bool) -> None:
    client = World().connect()
    client.publish("/queue/a", "x", filler="y" * (length - len("filler:")))
    assert client.engine.is_closed is not is_fine


@pytest.mark.parametrize(("count", "is_fine"), [(1000, True), (1001, False)])
def test_s7_a_frame_has_at_most_1000_headers(count: int, is_fine: bool) -> None:
    client = World().connect()
    fillers = {f"h{number}": "x" for number in range(count - 1)}
    client.send("SEND", {"destination": "/queue/a", **fillers}, "x")
    assert client.engine.is_closed is not is_fine


@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize(("length", "is_fine"), [(100, True), (101, False)])
def test_s8_max_data_length_holds_with_and_without_content_length(
    has_length: bool, length: int, is_fine: bool
) -> None:
    client = World(stomp=StompSettings(max_data_length=100)).connect()
    headers = {"destination": "/queue/a"}
    if has_length:
        headers["content-length"] = str(length)
    client.send("SEND", headers, "x" * length)
    assert client.engine.is_closed is not is_fine


def test_s9_die_delay_lets_the_client_read_the_error() -> None:
    client = World(stomp=StompSettings(die_delay_ms=1500)).connect()
    client.send("NONSENSE")
    client.error()
    assert client.engine.close_delay_s == 1.5
    assert StompSettings().die_delay_ms == 500


def test_an_error_names_the_cause_and_echoes_the_receipt() -> None:
    client = World().connect()
    client.send("SUBSCRIBE", {"destination": "/queue/a", "receipt": "r7"})
    error = client.error()
    assert error["receipt-id"] == "r7"
    assert error["message"] == "SUBSCRIBE frame without the header id"
    assert error.body == b"SUBSCRIBE frame without the header id\n"


@pytest.mark.parametrize("line", [b"x:\\t", b"x", b":x", b"x:\xff"])
@pytest.mark.parametrize("head", [b"SEND\ndestination:/queue/a\n", b"UNSUBSCRIBE\nid:s\n"])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_header_that_makes_no_sense_does_not_hide_the_receipt(
    head: bytes, line: bytes, size: int
) -> None:
    client = World().connect()
    data = head + line + b"\nreceipt:r\nreceipt:s\n\n\0"
    for at in range(0, len(data), size):
        client.feed(data[at : at + size])
    assert client.error()["receipt-id"] == "r"


def test_frames_after_the_bad_one_are_not_read() -> None:
    world = World()
    client = world.connect()
    client.feed(frame("NONSENSE") + frame("SEND", {"destination": "/queue/a"}, "x"))
    client.error()
    assert world.depth("/queue/a") == 0


def test_a_failed_connection_gives_back_what_it_held() -> None:
    world = World()
    client, other = world.connect(), world.connect()
    client.subscribe("/queue/a", ack="client")
    client.publish("/queue/a", "x")
    client.take()
    client.send("NONSENSE")
    other.subscribe("/queue/a")
    assert other.take()["redelivered"] == "true"


def test_shut_down_tells_the_peer() -> None:
    world = World()
    client = world.connect()
    client.engine.shut_down("the broker is shutting down", world.now)
    world.settle_down()
    assert client.error()["message"] == "the broker is shutting down"


def test_a_subscription_whose_queue_is_deleted_ends_the_connection() -> None:
    world = World()
    client = world.connect()
    client.subscribe("/queue/a")
    world.broker.host.delete_queue("a", "queue a was deleted")
    world.settle_down()
    assert "queue a was deleted" in client.error()["message"]


@pytest.mark.parametrize(
    ("frame", "code", "cause"),
    [
        ("GRAB", "protocol-error", "GRAB"),
        ("SEND\ndestination:/queue/a\nexpires:soon", "protocol-error", "expires"),
        (f"SEND\ndestination:/nowhere/{'x' * 300}", "invalid", "/nowhere/"),
    ],
)
def test_what_a_client_did_wrong_is_in_the_brokers_log_too(
    frame: str, code: str, cause: str
) -> None:
    world = World()
    with capture_logs() as logs:
        client = world.connect()
        client.engine.log = structlog.get_logger()
        client.engine.remote = "192.0.2.1:4711"
        client.feed(f"{frame}\n\n\0".encode())
    (entry,) = logs
    assert (entry["event"], entry["remote"]) == ("connection_refused", "192.0.2.1:4711")
    assert entry["code"] == client.error()["covey-code"] == code
    assert cause in entry["cause"]
    assert len(entry["cause"]) <= FIELD_MAX


def test_a_wrong_password_is_told_by_the_audit_alone() -> None:
    client = World().stranger()
    with capture_logs() as logs:
        client.engine.log = structlog.get_logger()
        client.send("CONNECT", {"login": "admin", "passcode": "wrong"})
    assert client.error()["covey-code"] == "denied"
    assert logs == []
