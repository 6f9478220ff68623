"""Broker URLs."""

from __future__ import annotations

import pytest

from covey.worker.address import Address, parse_addresses


def test_a_url_names_user_password_host_port_and_virtual_host() -> None:
    (address,) = parse_addresses("covey://ann:p%40ss@broker.example:61700/shop")
    assert address == Address("broker.example", 61700, "ann", "p@ss", False, "shop")


def test_without_a_login_it_is_the_default_one() -> None:
    (address,) = parse_addresses("covey://localhost")
    assert (address.user, address.password, address.port) == ("admin", "password", 61613)


def test_several_brokers_share_a_login() -> None:
    found = parse_addresses("covey+tls://ann:x@one,two:7,[::1]:8")
    assert [str(each) for each in found] == ["one:61614", "two:7", "[::1]:8"]
    assert all(each.is_tls and each.user == "ann" for each in found)


def test_a_list_of_urls_is_tried_in_its_order() -> None:
    assert [each.host for each in parse_addresses(["covey://a", "covey://b"])] == ["a", "b"]


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("localhost", "begins with covey://"),
        ("amqp://localhost", "begins with covey://"),
        ("covey://", "lacks its host"),
        ("covey://ann@host", "user:password"),
        ("covey://host:x", "x is not a port"),
        ("covey://host:65536", "65536 is not a port"),
        ("covey://[::1", "is not an address"),
        ([], "no broker"),
    ],
)
def test_a_bad_url_is_refused_with_the_cause(url: str | list[str], cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        parse_addresses(url)


def test_neither_an_address_nor_a_refusal_shows_the_password() -> None:
    (address,) = parse_addresses("covey://ann:secret@host")
    assert "secret" not in str(address)
    with pytest.raises(ValueError, match="port") as refused:
        parse_addresses("covey://ann:secret@host:x")
    assert "secret" not in str(refused.value)
