"""A connector's settings as the engine uses them; a connection's temporary names."""

from __future__ import annotations

import pytest

from covey.config.connectors import UserHeaderSettings
from covey.config.settings import Settings, StompSettings
from covey.core.broker.broker import Broker
from covey.core.errors import ProtocolError
from covey.core.naming.destination import Destination, Kind
from covey.core.security.users import Principal
from covey.protocols.stomp.settings import (
    Names,
    buffer_size,
    full_limits,
    login_limits,
    own_headers,
    typed_name,
    user_headers,
)

KIB = 1024
WHO = (Principal("user", "ann"), Principal("role", "admin"), Principal("role", "dev"))


@pytest.mark.parametrize(
    ("connections", "size"),
    [(1, 640 * KIB), (100, 640 * KIB), (200, 320 * KIB), (10_000, 20 * KIB)],
)
def test_s2_the_buffer_is_tuned_by_the_number_of_connections(connections: int, size: int) -> None:
    found = buffer_size(StompSettings(), connections)
    assert abs(found - size) < 20 * KIB
    assert 20 * KIB <= found <= 640 * KIB


def test_s2_a_given_buffer_size_is_used() -> None:
    assert buffer_size(StompSettings(buffer_size=5000), 10_000) == 5000


@pytest.mark.parametrize(
    ("separator", "kind", "value"),
    [
        (None, "*", "ann"),
        (",", "*", "ann,admin,dev"),
        (";", "role", "admin;dev"),
        (None, "role", "admin"),
        (",", "team", ""),
        (None, "team", ""),
    ],
)
def test_s18_s19_user_headers_join_the_matching_principals(
    separator: str | None, kind: str, value: str
) -> None:
    wanted = UserHeaderSettings(header="who", separator=separator, kind=kind)
    assert user_headers(StompSettings(add_user_header=(wanted,)), WHO) == [("who", value)]


def test_several_user_headers_may_be_asked_for() -> None:
    settings = StompSettings(
        add_user_header=(
            UserHeaderSettings(header="user", kind="user"),
            UserHeaderSettings(header="roles", kind="role", separator=" "),
        )
    )
    assert user_headers(settings, WHO) == [("user", "ann"), ("roles", "admin dev")]


def test_a_stranger_has_less_room_than_a_client() -> None:
    settings = StompSettings()
    assert login_limits(settings).headers_max == 30
    assert login_limits(settings).frame_length_max == 64 * KIB
    full = full_limits(settings)
    assert (full.headers_max, full.header_length_max) == (1000, 10 * KIB)
    assert (full.body_length_max, full.frame_length_max) == (100 * KIB * KIB, 0)


def test_headers_of_our_own_are_those_of_the_settings() -> None:
    assert own_headers(StompSettings()) == frozenset()
    settings = StompSettings(add_timestamp_header="at", add_redeliveries_header="again")
    assert own_headers(settings) == {"at", "again"}


@pytest.mark.parametrize(
    ("destination", "kind", "text"),
    [
        ("a", "ANYCAST", "/queue/a"),
        ("a", "MULTICAST", "/topic/a"),
        ("/queue/a", "MULTICAST", "/queue/a"),
        ("queue://a", "MULTICAST", "queue://a"),
    ],
)
def test_a_type_header_is_for_names_without_a_prefix(
    destination: str, kind: str, text: str
) -> None:
    for header in ("destination-type", "subscription-type"):
        assert typed_name({"destination": destination, header: kind}, StompSettings()) == text


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="x is none of ANYCAST, MULTICAST"):
        typed_name({"destination": "a", "destination-type": "x"}, StompSettings())


@pytest.fixture
def names() -> Names:
    return Names(StompSettings(), Broker(Settings()), "23")


def test_s77_a_temporary_name_becomes_the_connections_own(names: Names) -> None:
    (found,) = names.destinations("/temp-queue/example", allow_patterns=False)
    assert found == Destination(Kind.QUEUE, "temp.default.23.example")
    (found,) = names.destinations("/temp-topic/a.b", allow_patterns=True)
    assert found == Destination(Kind.TOPIC, "temp.default.23.a.b")


@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("/temp-queue/example", "/queue/temp.default.23.example"),
        ("/temp-topic/example", "/topic/temp.default.23.example"),
        (
            "/temp-queue/a,/temp-queue/b",
            "/queue/temp.default.23.a,/queue/temp.default.23.b",
        ),
        ("/queue/a", ""),
        ("/temp-queue/", ""),
        ("/temp-queue/*", ""),
        ("any text", ""),
    ],
)
def test_s77_a_reply_to_is_written_as_others_know_it(names: Names, text: str, real: str) -> None:
    assert names.written(names.own_places(text)) == real
