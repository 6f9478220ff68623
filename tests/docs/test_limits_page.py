"""The page of limits names settings and constants that exist, with the defaults they have."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from covey.config.connectors import (
    AmqpSettings,
    ConnectorSettings,
    HttpSettings,
    StompSettings,
    TlsSettings,
)
from covey.config.queues import QueueSettings
from covey.config.record import Record, parse_size
from covey.config.settings import BrokerSettings, EventLogSettings, StoreSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
SETTING = re.compile(r"^\| `(\w+)\.(\w+)` +\| (\S+) +\|", re.MULTILINE)
CONSTANT = re.compile(r"^\| `([\w.]+)\.([A-Z_]+)`(?:, `([A-Z_]+)`)?", re.MULTILINE)

RECORDS: dict[str, type[Record]] = {
    "broker": BrokerSettings,
    "store": StoreSettings,
    "event_log": EventLogSettings,
    "queue": QueueSettings,
    "connector": ConnectorSettings,
    "stomp": StompSettings,
    "amqp": AmqpSettings,
    "http": HttpSettings,
    "tls": TlsSettings,
}


def test_every_setting_of_the_page_has_the_default_it_says() -> None:
    found = SETTING.findall(PAGE.read_text())
    assert len(found) > 30
    wrong = [
        (table, name, default)
        for table, name, default in found
        if RECORDS[table].model_fields[name].default != parse_size(default)
    ]
    assert wrong == []


def test_every_constant_of_the_page_is_there() -> None:
    found = CONSTANT.findall(PAGE.read_text())
    assert len(found) > 15
    for module, *names in found:
        for name in filter(None, names):
            assert hasattr(import_module(f"covey.{module}"), name), f"{module}.{name}"
