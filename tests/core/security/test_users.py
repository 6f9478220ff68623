"""Who somebody is: passwords, records, the well-known one, and what roles allow."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from covey.config.settings import DEFAULT_USERS, UserSettings
from covey.core.errors import RefusedError
from covey.core.security.passwords import make_record, parse_record
from covey.core.security.users import Identity, Principal, Users, Verb, authorise


def users() -> Users:
    ann = UserSettings(name="ann", password=SecretStr("secret"), roles=("dev", "admin"))
    return Users((ann,))


def test_a_login_gives_the_name_and_the_roles() -> None:
    identity = users().login("ann", "secret", is_loopback=False)
    assert identity.name == "ann"
    expected = (Principal("user", "ann"), Principal("role", "dev"), Principal("role", "admin"))
    assert identity.principals == expected


@pytest.mark.parametrize(("name", "password"), [("ann", "x"), ("bob", "secret"), ("", "")])
def test_every_failed_login_has_the_same_answer(name: str, password: str) -> None:
    with pytest.raises(RefusedError) as caught:
        users().login(name, password, is_loopback=True)
    assert caught.value.text == "login failed: wrong user or password"


def test_a_remembered_login_does_not_open_for_another_password() -> None:
    known = users()
    known.login("ann", "secret", is_loopback=True)
    known.login("ann", "secret", is_loopback=True)
    with pytest.raises(RefusedError):
        known.login("ann", "secre", is_loopback=True)


def test_the_default_password_works_from_loopback_only() -> None:
    known = Users(DEFAULT_USERS)
    assert known.has_default_password
    assert known.login("admin", "password", is_loopback=True).has_role("admin")
    with pytest.raises(RefusedError):
        known.login("admin", "password", is_loopback=False)


def test_a_record_may_stand_for_the_password() -> None:
    text = make_record("secret", b"0123456789abcdef").text()
    known = Users((UserSettings(name="ann", password=SecretStr(text)),))
    known.login("ann", "secret", is_loopback=False)
    assert parse_record(text).text() == text
    with pytest.raises(RefusedError):
        known.login("ann", text, is_loopback=False)


def test_an_unknown_name_has_a_steady_record_that_nothing_matches() -> None:
    known = users()
    assert known.record("bob") == known.record("bob")
    assert known.record("bob").salt != known.record("eve").salt
    assert not known.record("bob").matches("")


def test_an_unknown_name_costs_what_the_known_ones_cost() -> None:
    text = make_record("secret", iterations=5000).text()
    known = Users((UserSettings(name="ann", password=SecretStr(text)),))
    assert known.record("bob").iterations == known.record("ann").iterations == 5000


@pytest.mark.parametrize("iterations", ["0", "-1", "1000001", "1e3", "many"])
def test_a_record_that_no_login_could_be_checked_against_is_refused(iterations: str) -> None:
    text = make_record("secret").text().replace("4096", iterations)
    with pytest.raises(RefusedError, match="starts like a SCRAM record and is none"):
        Users((UserSettings(name="ann", password=SecretStr(text)),))


def test_only_admins_manage() -> None:
    authorise(Identity("ann", (Principal("role", "admin"),)), Verb.MANAGE, "broker")
    with pytest.raises(RefusedError, match="ann may not manage broker"):
        authorise(Identity("ann"), Verb.MANAGE, "broker")
