"""ERROR frames: their receipt, their kind, the setting they name, plain words; late ones, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import covey.protocols.stomp.engine
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, Frame, World

SMALL = StompSettings(max_data_length=100, max_headers=20, max_header_length=100)
HEAD = b"SEND\ndestination:/queue/a\nreceipt:r-77\n"


def told(data: bytes, *, is_bytewise: bool = False, version: str = "1.2") -> Frame:
    client = World(stomp=SMALL).connect(version)
    for piece in [data[at : at + 1] for at in range(len(data))] if is_bytewise else [data]:
        client.feed(piece)
    return client.error()


BROKEN = {
    "an announced body over the limit": (HEAD + b"content-length:101\n\n", "max_data_length"),
    "an endless announced body": (HEAD + b"content-length:%s\n\n" % (b"9" * 30), "max_data_length"),
    "a body over the limit": (HEAD + b"\n" + b"b" * 101, "max_data_length"),
    "a whole body over the limit": (HEAD + b"\n" + b"b" * 101 + b"\0", "max_data_length"),
    "too many headers": (HEAD + b"x:1\n" * 30, "max_headers"),
    "a header too long": (HEAD + b"x:" + b"a" * 100, "max_header_length"),
    "a length that is none": (HEAD + b"content-length:-1\n\n\0", ""),
    "no NUL where it should be": (HEAD + b"content-length:2\n\nabc\0", ""),
    "a forgotten blank line": (HEAD + b"\0", ""),
    "an escape that is none": (HEAD + b"path:C\\temp\n\n\0", ""),
    "a line that is no header": (HEAD + b"nonsense\n\n\0", ""),
}


@pytest.mark.parametrize("is_bytewise", [False, True])
@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_frame_s_error_has_its_receipt_its_kind_and_the_setting(
    name: str, is_bytewise: bool
) -> None:
    data, key = BROKEN[name]
    error = told(data, is_bytewise=is_bytewise)
    assert error["receipt-id"] == "r-77"
    assert error["covey-code"] == ("limit" if key else "protocol-error")
    assert not key or f"the most that {key} allows" in error["message"]


@pytest.mark.parametrize("is_bytewise", [False, True])
def test_a_head_that_came_before_does_not_hide_the_receipt(is_bytewise: bool) -> None:
    head = b"SEND\ndestination:/queue/a\ncontent-length:2\n"
    data = head + b"\nab\0" + head + b"receipt:r-77\n\nabc\0"
    assert told(data, is_bytewise=is_bytewise)["receipt-id"] == "r-77"


def test_a_receipt_that_needs_an_escape_is_echoed_too() -> None:
    data = b"SEND\nreceipt:a\\cb\ndestination:/queue/a\n\n" + b"b" * 101
    assert told(data)["receipt-id"] == "a:b"


def test_a_receipt_that_was_not_read_yet_is_nobody_s() -> None:
    error = told(b"SEND\ndestination:/queue/a\nx:" + b"a" * 100 + b"\nreceipt:r\n\n\0")
    assert "receipt-id" not in error.headers


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"CONNECT\n" + b"x:1\n" * 31, "login_headers_max"),
        (b"CONNECT\n" + (b"x:" + b"a" * 9000 + b"\n") * 10, "login_frame_max"),
        (b"CONNECT\nx:" + b"a" * 20000, "max_header_length"),
        (b"CONNECTCONNECTCONNECTCONNECTCONNECT", "max_command_length"),
    ],
)
def test_strangers_are_told_their_limits(data: bytes, key: str) -> None:
    stranger = World().stranger()
    stranger.feed(data)
    error = stranger.error()
    assert f"the most that {key} allows" in error["message"]
    assert error["covey-code"] == "limit"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (HEAD + b"path:C\\temp\n\n\0", "undefined escape '\\t' in the header 'path'"),
        (HEAD + b"path:C\\\n\n\0", "undefined escape '\\' in the header 'path'"),
        (b"SEND\ndestination:/queue/a\\\\b{\n\n\0", "destination '/queue/a\\b{': "),
        (b"\x16\xffabc\n", "unknown command '%16%FFabc'"),
        (
            b"SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:a = \\\\\n\n\0",
            "'\\' has no meaning here",
        ),
    ],
)
def test_what_a_client_wrote_is_shown_as_it_wrote_it(data: bytes, text: str) -> None:
    assert text in told(data)["message"]


def test_no_error_text_shows_python_s_spelling() -> None:
    """Who writes one quotes with `core.errors.quoted`."""
    folder = Path(covey.protocols.stomp.engine.__file__).parent
    for source in folder.glob("*.py"):
        assert not re.search(r"!r}|\bascii\(|\brepr\(", source.read_text()), source.name


# A subscription that the broker ends: STOMP has an ERROR for that, and no RECEIPT.

PORTION = 10


def make_world(queues: int) -> World:
    """Make a broker whose queues bear two selectors, and two clients that have theirs there."""
    world = World(limits={"selectors_per_queue_max": 2, "work_portion": PORTION})
    world.does_jobs = True
    for number in range(queues):
        world.broker.host.queue(f"many.{number}")
    for number in range(2):
        reader = world.connect()
        reader.subscribe(f"/queue/many.{queues},/queue/many.{queues - 1}", selector=f"a = {number}")
    return world


def refused(client: Client) -> str:
    """Give the reason of the ERROR, the only thing that came."""
    error = client.error()
    assert error["covey-code"] == "limit"
    return error["message"]


def test_a_wide_subscription_that_is_refused_late_gets_an_error_and_no_receipt() -> None:
    world = make_world(35)
    client = world.connect()
    client.subscribe("/queue/many.*", selector="a = 9", receipt="r")
    assert "subscription s ends: queue many.34 has 2 distinct selectors" in refused(client)
    assert not client.session.core.subscriptions
    assert len(world.queue("/queue/many.0").state.consumers) == 0


def test_one_that_is_refused_at_once_gets_the_same_error() -> None:
    world = make_world(5)
    client = world.connect()
    client.subscribe("/queue/many.*", selector="a = 9", receipt="r")
    assert "selectors_per_queue_max" in refused(client)


def test_a_new_queue_ends_those_that_cannot_read_it_and_its_maker_goes_on() -> None:
    world = make_world(3)
    clients = [world.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.subscribe("/queue/new.*", selector=f"a = {number}")
    maker = world.connect()
    maker.publish("/queue/new.1", "hello", receipt="r", a="1")
    assert maker.receipts() == ["r"]
    assert "cannot read the new queue new.1" in refused(clients[2])
    maker.publish("/queue/new.1", "again", a="0")
    assert (clients[0].bodies(), clients[1].bodies()) == (["again"], ["hello"])
