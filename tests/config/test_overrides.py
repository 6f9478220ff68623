"""Environment and arguments reach exactly what they name, or are refused."""

from __future__ import annotations

import pytest

from covey.config.errors import ConfigError, Problem
from covey.config.load import load


def refused(environ: dict[str, str]) -> list[Problem]:
    with pytest.raises(ConfigError) as refusal:
        load(None, environ, {})
    return refusal.value.problems


def test_a_protocol_s_option_reaches_every_connector_that_speaks_it() -> None:
    loaded = load(None, {"COVEY_STOMP__MAX_HEADERS": "50"}, {})
    limits = {one.id: one.stomp.max_headers for one in loaded.settings.connectors}
    assert limits == {"stomp": 50, "amqp": 1000, "http": 50}
    assert loaded.origins["connector[0].stomp.max_headers"] == "env COVEY_STOMP__MAX_HEADERS"


def test_a_protocol_s_address_is_that_of_its_first_connector() -> None:
    loaded = load(None, {}, {"stomp.bind": "localhost:1", "http.bind": "localhost:2"})
    binds = [connector.bind for connector in loaded.settings.connectors]
    assert binds == ["localhost:1", "127.0.0.1:5672", "localhost:2"]


def test_an_address_for_a_protocol_without_a_connector_makes_one() -> None:
    environ = {"COVEY_CONNECTOR": "[]"}
    loaded = load(None, environ, {"amqp.bind": "localhost:1"})
    assert [(one.id, one.protocol) for one in loaded.settings.connectors] == [("amqp", "amqp")]


def test_an_option_for_a_protocol_nobody_speaks_is_refused() -> None:
    (problem,) = refused({"COVEY_CONNECTOR": "[]", "COVEY_STOMP__MAX_HEADERS": "5"})
    assert problem.text == "no connector speaks stomp"


def test_an_entry_is_found_by_its_name() -> None:
    environ = {
        "COVEY_CONNECTOR__AMQP__BIND": "localhost:9",
        "COVEY_VIRTUAL_HOST__DEFAULT__HOST_NAMES": "a, b",
    }
    settings = load(None, environ, {"user.admin.roles": ["x"]}).settings
    assert settings.connectors[1].bind == "localhost:9"
    assert settings.virtual_hosts[0].host_names == ("a", "b")
    assert settings.users[0].roles == ("x",)


def test_lists_and_tables_may_be_written_as_toml() -> None:
    environ = {
        "COVEY_STOMP__ADD_USER_HEADER": '[{ header = "user", separator = "," }]',
        "COVEY_HTTP__ALLOWED_ORIGINS": '["https://a:1"]',
    }
    settings = load(None, environ, {}).settings
    assert settings.connectors[0].stomp.add_user_header[0].separator == ","
    assert settings.connectors[2].http.allowed_origins == ("https://a:1",)


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("COVEY_BROKR", "unknown key", "broker"),
        ("COVEY_BROKER__IDD", "unknown key", "id"),
        ("COVEY_STOMP__MAX_HEADRS", "unknown key", "max_headers"),
        ("COVEY_STOMP", "names the protocol stomp but none of its options", ""),
        ("COVEY_CONNECTOR__STOMPP__BIND", "there is no connector named stompp", "connector.stomp"),
        ("COVEY_CONNECTOR__STOMP", "names a connector but none of its keys", ""),
        ("COVEY_QUEUE__A__QUOTA", "queue entries are set in files only", ""),
        ("COVEY_BROKER__ID__X", "should be a valid string", ""),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_once_with_the_nearest(
    name: str, text: str, hint: str
) -> None:
    (problem,) = refused({name: "1"})
    assert (problem.file, problem.text, problem.hint) == (f"env {name}", text, hint)


def test_a_key_below_a_single_value_is_refused() -> None:
    problems = refused({"COVEY_BROKER__ID": "a", "COVEY_BROKER__ID__X": "1"})
    assert [problem.text for problem in problems] == ["id is a single value and has no x"]


def test_a_wrong_value_is_told_with_its_variable() -> None:
    (problem,) = refused({"COVEY_BROKER__TX_BYTES_MAX": "64X"})
    assert problem.file == "env COVEY_BROKER__TX_BYTES_MAX"
    assert "64X" in problem.text
