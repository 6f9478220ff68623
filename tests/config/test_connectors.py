"""Connectors: addresses, protocol options and their defaults, TLS."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from covey.config.connectors import (
    AmqpSettings,
    ConnectorSettings,
    HttpSettings,
    StompSettings,
    TlsSettings,
)
from covey.config.record import Record
from covey.config.settings import StoreSettings


def connector(**given: object) -> ConnectorSettings:
    return ConnectorSettings.model_validate(
        {"id": "c", "protocol": "stomp", "bind": "localhost:1", **given}
    )


@pytest.mark.parametrize(
    ("bind", "host", "port"),
    [
        ("127.0.0.1:61613", "127.0.0.1", 61613),
        ("tcp://0.0.0.0:61613", "0.0.0.0", 61613),
        ("[::1]:0", "::1", 0),
    ],
)
def test_an_address_is_host_and_port(bind: str, host: str, port: int) -> None:
    given = connector(bind=bind)
    assert (given.host, given.port) == (host, port)


@pytest.mark.parametrize("bind", ["localhost", ":1", "a:", "a:x", "a:65536", "::1:61613", "a:-1"])
def test_other_addresses_are_refused(bind: str) -> None:
    with pytest.raises(ValidationError, match="bind"):
        connector(bind=bind)


def test_the_stomp_defaults_are_those_of_the_apollo_manual() -> None:
    stomp = StompSettings()
    assert stomp.buffer_size is None
    assert (stomp.buffer_auto_max, stomp.buffer_auto_min) == (640 << 10, 20 << 10)
    assert (stomp.max_header_length, stomp.max_headers) == (10240, 1000)
    assert stomp.max_data_length == 100 << 20
    assert (stomp.queue_prefix, stomp.topic_prefix) == ("/queue/", "/topic/")
    assert (stomp.path_separator, stomp.destination_separator) == (".", ",")
    assert (stomp.any_child_wildcard, stomp.any_descendant_wildcard) == ("*", "**")
    assert (stomp.regex_wildcard_start, stomp.regex_wildcard_end) == ("{", "}")
    assert (stomp.add_user_header, stomp.add_timestamp_header) == ((), None)
    assert (stomp.default_credit_count, stomp.default_credit_bytes) == (655360, 655360)


def test_a_user_header_is_a_name_or_tables() -> None:
    plain = StompSettings.model_validate({"add_user_header": "user"})
    assert [(one.header, one.separator, one.kind) for one in plain.add_user_header] == [
        ("user", None, "*")
    ]
    tables = [{"header": "user", "separator": ","}, {"header": "role", "kind": "role"}]
    nested = StompSettings.model_validate({"add_user_header": tables})
    assert [one.kind for one in nested.add_user_header] == ["*", "role"]


def test_die_delay_is_the_manual_s_name() -> None:
    assert StompSettings.model_validate({"die_delay": 5000}).die_delay_ms == 5000


@pytest.mark.parametrize(
    ("given", "rule"), [("manual", "manual"), (True, True), (False, False), ("False", False)]
)
def test_names_follow_the_manual_or_another_rule(given: object, rule: object) -> None:
    assert StompSettings.model_validate({"strict_names": given}).strict_names == rule


@pytest.mark.parametrize("given", ["lenient", 1, None])
def test_another_rule_for_names_is_refused_once(given: object) -> None:
    with pytest.raises(ValidationError, match='"manual", true or false is needed') as error:
        StompSettings.model_validate({"strict_names": given})
    assert error.value.error_count() == 1


def test_one_key_in_two_spellings_is_refused() -> None:
    with pytest.raises(ValidationError, match="die_delay_ms is given twice"):
        StompSettings.model_validate({"die-delay": 1, "die_delay_ms": 2})


def test_options_of_a_protocol_that_is_not_spoken_are_refused() -> None:
    with pytest.raises(ValidationError, match="connector c has amqp options but speaks stomp"):
        connector(amqp={"links_max": 5})
    assert connector(protocol="http", stomp={"max_headers": 5}).stomp.max_headers == 5


@pytest.mark.parametrize("value", [True, "x", 0, -1, 1.5])
def test_a_limit_is_a_positive_whole_number(value: object) -> None:
    with pytest.raises(ValidationError, match="max_headers"):
        StompSettings.model_validate({"max_headers": value})


def test_an_unknown_sasl_mechanism_is_refused() -> None:
    with pytest.raises(ValidationError, match="ANONYMOUS"):
        connector(protocol="amqp", amqp={"sasl_mechanisms": ["ANONYMOUS"]})


def test_asking_for_client_certificates_needs_an_authority() -> None:
    with pytest.raises(ValidationError, match="client_auth required needs client_ca"):
        TlsSettings.model_validate({"certificate": "a", "key": "b", "client_auth": "required"})


def test_the_tuned_buffer_s_bounds_are_in_order() -> None:
    with pytest.raises(ValidationError, match="buffer_auto_min"):
        StompSettings.model_validate({"buffer_auto_min": "2M"})


@pytest.mark.parametrize(
    ("table", "option", "wrong"),
    [
        (StompSettings, "max_data_length", "1G"),
        (AmqpSettings, "max_message_size", "513M"),
        (AmqpSettings, "max_message_size", 0),  # any size, to a client
        (HttpSettings, "body_max", "2G"),
        (StoreSettings, "journal_size", "1G"),
    ],
)
def test_no_message_may_be_larger_than_a_value_of_the_store(
    table: type[Record], option: str, wrong: object
) -> None:
    with pytest.raises(ValidationError, match=option):
        table.model_validate({option: wrong})
    table.model_validate({option: "512M"})
