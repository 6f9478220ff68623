"""Who cannot be reached is told apart: the wrong name, the wrong port, TLS where there is none."""

from __future__ import annotations

import re

import pytest

from covey.client.errors import UnreachableError
from covey.client.management import Management
from covey.client.place import parse_place
from covey.client.stomp import StompClient
from tests.cli.support import Terminal
from tests.client.support import TlsBroker
from tests.e2e.support import HOST
from tests.interop.amqp import amqp_port


def stomp_says(place: str) -> str:
    with pytest.raises(UnreachableError) as failure:
        StompClient(parse_place(place, 0), timeout_s=5)
    return str(failure.value)


def amqp_says(place: str) -> str:
    with pytest.raises(UnreachableError) as failure:
        Management(parse_place(place, 0), timeout_s=5)
    return str(failure.value)


def http_place(terminal: Terminal) -> str:
    found = re.search(r"http\s+(\S+)", terminal.broker.welcome)
    assert found is not None
    return found[1]


def test_a_client_at_another_protocol_s_port_is_told_whose_it_is(terminal: Terminal) -> None:
    stomp, amqp, http = terminal.stomp, terminal.amqp, http_place(terminal)
    assert stomp_says(amqp) == f"{amqp} speaks AMQP, not STOMP: another port?"
    assert stomp_says(http) == f"{http} speaks HTTP, not STOMP: another port?"
    assert amqp_says(stomp) == f"{stomp} speaks STOMP, not AMQP: another port?"
    assert amqp_says(http) == f"{http} speaks HTTP, not AMQP: another port?"


def test_tls_at_a_plain_port_is_told_so(terminal: Terminal) -> None:
    for place, says in ((terminal.stomp, stomp_says), (terminal.amqp, amqp_says)):
        assert says(f"tls://{place}") == f"{place} does not speak TLS; leave tls:// out"


def test_plain_words_at_a_tls_port_are_told_so(tls_broker: TlsBroker) -> None:
    stomp = f"{HOST}:{tls_broker.broker.port}"
    amqp = f"{HOST}:{amqp_port(tls_broker.broker)}"
    for place, says in ((stomp, stomp_says), (amqp, amqp_says)):
        hint = "if it wants TLS, write tls:// before its name"
        assert says(place) == f"{place} closed without a word; {hint}"


def test_an_unknown_host_and_a_silent_port_are_two_things() -> None:
    for says in (stomp_says, amqp_says):
        assert says("nobody.invalid:1") == "no host is named nobody.invalid"
        assert says("127.0.0.1:1") == "no broker answers at 127.0.0.1:1; is it running there?"
