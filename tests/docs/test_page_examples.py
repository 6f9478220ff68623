"""What pages show and list is so: requests, frames, tables, configuration.

The requests of docs/amqp.md: what it says `$management` answers is what it answers.

The pages name the strategies that the registry has, with their names, options and limits.

The frames of docs/stomp.md: what it says a client hears is what a client hears.

The security page's configuration works as written, and its table names every verb.

The page of limits names settings and constants that exist, with the defaults they have.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from covey.config.connectors import (
    AmqpSettings,
    ConnectorSettings,
    HttpSettings,
    StompSettings,
    TlsSettings,
)
from covey.config.load import load
from covey.config.queues import QueueSettings
from covey.config.record import Record, parse_size
from covey.config.settings import (
    BrokerSettings,
    ClusterSettings,
    EventLogSettings,
    StoreSettings,
    TelemetrySettings,
)
from covey.core.security.permissions import compile_permissions
from covey.core.security.users import Verb
from covey.groups import STRATEGIES
from tests.docs.strategy_tables import GROUPS, lacking
from tests.protocols.amqp.peer import Peer, make_broker
from tests.protocols.stomp.support import Client, World

AMQP_PAGE = (Path(__file__).parents[2] / "docs" / "amqp.md").read_text()
AMQP_BLOCKS = re.findall(r"```management\n(.*?)```", AMQP_PAGE, re.DOTALL)
ADDRESSES = re.findall(r"```address\n(.*?)\n```", AMQP_PAGE, re.DOTALL)


def exchanges(block: str) -> list[tuple[list[Any], list[Any]]]:
    """Cut a block into requests and the answers expected, as JSON."""
    found: list[tuple[list[Any], list[Any]]] = []
    for line in block.splitlines():
        side, value = line[0], json.loads(line[2:])
        if side == ">" and (not found or found[-1][1]):
            found.append(([], []))
        found[-1][side == "<"].append(value)
    return found


def test_management_answers_as_the_page_says() -> None:
    (block,) = AMQP_BLOCKS
    peer = Peer(make_broker(), login=("admin", "password"))
    reply_to = peer.receiver(None, dynamic=True).remote_source.address
    sender = peer.sender("$management")
    asked = exchanges(block)
    assert len(asked) > 8
    for (properties, *body), (status, *expected) in asked:
        request = Message(properties=properties, body=body[0] if body else None, reply_to=reply_to)
        peer.send(sender, request)
        peer.pump()
        delivery, answer = peer.messages.pop()
        peer.settle(delivery)
        assert answer.properties is not None
        assert (properties, answer.properties["statusCode"]) == (properties, status)
        said: Any = answer.body
        for name, value in (expected[0] if expected else {}).items():
            assert (name, said[name]) == (name, value)


def test_the_page_s_address_string_is_taken_and_echoed() -> None:
    (address,) = ADDRESSES
    peer = Peer(make_broker())
    assert peer.sender(address).remote_target.address == address


def test_every_page_names_every_strategy_and_every_option() -> None:
    assert lacking() == []


def test_no_section_is_about_a_strategy_that_is_not_there() -> None:
    sections = [line for line in GROUPS.read_text().splitlines() if line.startswith("### `")]
    assert [line.split("`")[1] for line in sections] == list(STRATEGIES)


STOMP_PAGE = Path(__file__).parents[2] / "docs" / "stomp.md"
STOMP_BLOCKS = re.findall(r"```frames\n(.*?)```", STOMP_PAGE.read_text(), re.DOTALL)


def _parts(block: str) -> list[tuple[str, str]]:
    """Cut a block into what is sent (">") and what is expected ("<"), in order."""
    parts: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        side, text = line[0], line[2:]
        if not parts or parts[-1][0] != side:
            parts.append((side, []))
        parts[-1][1].append(text)
    return [(side, "\n".join(lines)) for side, lines in parts]


def _expect(client: Client, text: str) -> None:
    for frame in text.split("^@")[:-1]:
        head, _, body = frame.lstrip("\n").partition("\n\n")
        command, *lines = head.split("\n")
        got = client.take(command)
        for line in lines:
            name, _, value = line.partition(":")
            assert got[name] == value
        assert got.body == body.encode()


@pytest.mark.parametrize("block", STOMP_BLOCKS, ids=range(len(STOMP_BLOCKS)))
def test_a_client_hears_what_the_page_says(block: str) -> None:
    world = World()
    is_login = "CONNECT" in block
    client = world.stranger() if is_login else world.connect()
    for side, text in _parts(block):
        if side == ">":
            client.say(text)
        else:
            _expect(client, text)
    assert client.inbox == []


def test_the_page_has_examples() -> None:
    assert len(STOMP_BLOCKS) >= 7


SECURITY_PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
SECURITY_BLOCKS = re.findall(r"```toml\n(.*?)```", SECURITY_PAGE, re.DOTALL)


@pytest.mark.parametrize("block", SECURITY_BLOCKS)
def test_each_example_is_a_configuration(block: str, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text(block)
    settings = load(file, {}, {}).settings
    compile_permissions(settings.permissions)
    assert settings.permissions or settings.connectors[0].tls


def test_the_table_names_every_verb() -> None:
    rows = re.findall(r"^\| (\w+) \|", SECURITY_PAGE, re.MULTILINE)
    assert [verb.value for verb in Verb] == [row for row in rows if row not in ("verb", "limit")]


def test_every_setting_the_page_names_exists() -> None:
    reference = (Path(__file__).parents[2] / "config" / "default.toml").read_text()
    named = set(re.findall(r"`(?:\w+\.)?([a-z]+_[a-z_]+)(?: = \w+)?`", SECURITY_PAGE))
    logged = {"logged_in", "login_failed", "slow_consumer", "unread_s"}
    logged |= {"reload_refused", "needs_restart", "operator_action", "audit_lines_left_out"}
    logged |= {"connection_opened", "connection_closed", "proxy_head_refused", "subscription_ended"}
    assert [name for name in sorted(named - logged) if f"{name} = " not in reference] == []


LIMITS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
SETTING = re.compile(r"^\| `(\w+)\.(\w+)` +\| (\S+) +\|", re.MULTILINE)
CONSTANT = re.compile(r"^\| `([\w.]+)\.([A-Z_]+)`(?:, `([A-Z_]+)`)?", re.MULTILINE)

RECORDS: dict[str, type[Record]] = {
    "broker": BrokerSettings,
    "store": StoreSettings,
    "event_log": EventLogSettings,
    "telemetry": TelemetrySettings,
    "cluster": ClusterSettings,
    "queue": QueueSettings,
    "connector": ConnectorSettings,
    "stomp": StompSettings,
    "amqp": AmqpSettings,
    "http": HttpSettings,
    "tls": TlsSettings,
}


def test_every_setting_of_the_page_has_the_default_it_says() -> None:
    found = SETTING.findall(LIMITS_PAGE.read_text())
    assert len(found) > 30
    wrong = [
        (table, name, default)
        for table, name, default in found
        if RECORDS[table].model_fields[name].default != parse_size(default)
    ]
    assert wrong == []


def test_every_constant_of_the_page_is_there() -> None:
    found = CONSTANT.findall(LIMITS_PAGE.read_text())
    assert len(found) > 15
    for module, *names in found:
        for name in filter(None, names):
            assert hasattr(import_module(f"covey.{module}"), name), f"{module}.{name}"
