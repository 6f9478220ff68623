"""A connection's temporary names, and what everybody else calls them."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings, StompSettings
from covey.core.broker.broker import Broker
from covey.core.naming.destination import Destination, Kind
from covey.protocols.stomp.settings import Names


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
