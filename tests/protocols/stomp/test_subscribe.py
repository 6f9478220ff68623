"""What the headers of a SUBSCRIBE ask for, in our words and in other brokers'."""

from __future__ import annotations

import pytest

from covey.core.errors import BrokerError
from covey.protocols.stomp.subscribe import (
    UNLIMITED,
    AckMode,
    Credit,
    SubscribeHeaders,
    read,
    read_credit,
    read_durable_name,
)

DEFAULT = Credit(655360, 655360)


def asked(client_id: str = "", **headers: str) -> SubscribeHeaders:
    given = {"id": "s", "destination": "/queue/a", **headers}
    return read(given, default=DEFAULT, socket_buffer=65536, client_id=client_id)


def test_a_bare_subscribe_reads_everything_automatically() -> None:
    found = asked()
    assert (found.ack, found.credit) == (AckMode.AUTO, DEFAULT)
    assert not (found.is_browser or found.is_exclusive or found.is_no_local or found.durable_name)
    assert (found.selector, found.include_seq, found.from_seq) == (None, "", None)


def test_a_client_without_an_id_is_known_by_its_destination() -> None:
    found = read({"destination": "/queue/a"}, default=DEFAULT, socket_buffer=1)
    assert (found.id, found.shown_id) == ("/queue/a", "")


@pytest.mark.parametrize(
    ("text", "credit"),
    [
        ("5", Credit(5, 65536, is_explicit=True)),
        ("5,0", Credit(5, 0, is_explicit=True)),
        ("5, 7", Credit(5, 7, is_explicit=True)),
        ("5,7,true", Credit(5, 7, is_explicit=True)),
        ("5,7,false", Credit(5, 7, is_raised_by_ack=False, is_explicit=True)),
    ],
)
def test_credit_is_count_size_and_whether_acks_raise_it(text: str, credit: Credit) -> None:
    assert asked(credit=text).credit == credit


@pytest.mark.parametrize(
    ("name", "value", "credit"),
    [
        ("activemq.prefetchSize", "10", Credit(10, 0)),
        ("activemq.prefetchSize", "0", Credit(1, 0)),
        ("prefetch-count", "10", Credit(10, 0)),
        ("prefetch-count", "0", Credit(UNLIMITED, 0)),
        ("consumer-window-size", "1000", Credit(0, 1000)),
        ("consumer-window-size", "0", Credit(1, 0)),
        ("consumer-window-size", "-1", Credit(UNLIMITED, UNLIMITED)),
    ],
)
def test_other_brokers_names_for_credit(name: str, value: str, credit: Credit) -> None:
    assert asked(**{name: value}).credit == credit


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("credit", ""),
        ("credit", "x"),
        ("credit", "-1"),
        ("credit", "1,2,maybe"),
        ("credit", "1,2,true,4"),
        ("credit", "9" * 30),
        ("prefetch-count", "-1"),
        ("activemq.prefetchSize", "many"),
        ("consumer-window-size", "-2"),
        ("from-seq", "-2"),
        ("from-seq", "first"),
        ("ack", "sometimes"),
        ("selector", "a ="),
        ("priority", "high"),
        ("covey-weight", "0"),
        ("browser", "perhaps"),
        ("browser-end", "no"),
        ("exclusive", "1"),
        ("persistent", "yes"),
    ],
)
def test_bad_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(BrokerError):
        asked(**{name: value})


def test_flags_may_be_capitals_as_python_writes_them() -> None:
    assert asked(browser="True").is_browser
    assert not asked(browser="False").is_browser
    assert asked(persistent="TRUE").durable_name == "s"


def test_exclusive_has_two_names_and_does_not_go_with_browsing() -> None:
    assert asked(exclusive="true").is_exclusive
    assert asked(**{"activemq.exclusive": "true"}).is_exclusive
    assert not asked(exclusive="true", browser="true").is_exclusive


def test_durable_names_of_other_brokers_carry_the_client_id() -> None:
    assert asked(persistent="true").durable_name == "s"
    assert asked(durable="true").durable_name == "s"
    assert asked(**{"activemq.subscriptionName": "d"}).durable_name == "d"
    assert asked("me", **{"activemq.subscriptionName": "d"}).durable_name == "me.d"
    assert read_durable_name({"persistent": "false"}, "s", "me") == ""


def test_a_durable_subscription_needs_a_name() -> None:
    with pytest.raises(BrokerError, match="needs an id"):
        read({"destination": "/topic/a", "persistent": "true"}, default=DEFAULT, socket_buffer=1)


def test_weight_and_priority() -> None:
    found = asked(**{"covey-weight": "500", "activemq.priority": "7"})
    assert (found.weight, found.priority) == (100, 7)


def test_the_credit_of_an_ack_is_count_and_size() -> None:
    assert read_credit("3") == (3, 0)
    assert read_credit("3,4") == (3, 4)
