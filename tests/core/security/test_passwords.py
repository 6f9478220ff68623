"""A password is one text, however it was typed and whichever way it comes in."""

from __future__ import annotations

import pytest
from pydantic import SecretStr
from scramp import ScramClient, ScramException

from covey.config.settings import UserSettings
from covey.core.errors import RefusedError
from covey.core.security.passwords import make_record, parse_record
from covey.core.security.users import Users
from covey.protocols.amqp.login.mechanisms import Scram


def scram_logs_in(password_kept: str, password_typed: str) -> bool:
    users = Users((UserSettings(name="ann", password=SecretStr(password_kept)),))
    server = Scram(users, is_loopback=True)
    client = ScramClient(["SCRAM-SHA-256"], "ann", password_typed)
    try:
        first = server.respond(client.get_client_first().encode())
        client.set_server_first(first.decode())
        server.respond(client.get_client_final().encode())
    except (RefusedError, ScramException):
        return False
    return server.identity is not None


@pytest.mark.parametrize(
    ("kept", "typed"),
    [
        ("pencil", "pencil"),
        ("p\u00e9ncil", "pe\u0301ncil"),  # composed and decomposed
        ("a\u00a0b", "a b"),  # a space is a space
        ("I\u00adX", "IX"),  # a soft hyphen is nothing
        ("\u2168", "IX"),  # the Roman numeral
    ],
)
def test_plain_and_scram_agree_on_texts_that_unicode_holds_equal(kept: str, typed: str) -> None:
    assert make_record(kept).matches(typed)
    assert scram_logs_in(kept, typed)


def test_a_wrong_password_matches_nothing() -> None:
    assert not make_record("pencil").matches("pencil2")
    assert not scram_logs_in("pencil", "pencil2")


@pytest.mark.parametrize("odd", ["bell\u0007\u00e9", "\u0627\u0031", "x" * 10_000 + "\u00e9"])
def test_what_cannot_be_prepared_is_a_password_all_the_same(odd: str) -> None:
    assert make_record(odd).matches(odd)


@pytest.mark.parametrize(
    "text", ["SCRAM-SHA-256$", "SCRAM-SHA-256$4096:x$y", "SCRAM-SHA-256$a:b$c:d"]
)
def test_what_only_starts_like_a_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_record(text)
    with pytest.raises(RefusedError, match="user ann: its password starts like a SCRAM record"):
        Users((UserSettings(name="ann", password=SecretStr(text)),))
