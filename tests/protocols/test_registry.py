"""Every protocol package has one record, and what others say of protocols agrees with it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from covey.config.connectors import SPOKEN, ConnectorSettings, ProtocolName
from covey.protocols.protocol import Protocol
from covey.protocols.registry import PROTOCOLS, decoders
from covey.protocols.sniff import spoken

ROOT = Path(__file__).resolve().parents[2] / "protocols"
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_exactly_one_record_and_the_registry_has_it(package: str) -> None:
    module = import_module(f"covey.protocols.{package}.protocol")
    records = [value for value in vars(module).values() if isinstance(value, Protocol)]
    assert records == [PROTOCOLS[package]]


def test_the_registry_has_no_other_protocol() -> None:
    assert sorted(PROTOCOLS) == PACKAGES


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda each: each.name)
def test_a_connector_can_have_it_with_the_options_of_its_record(protocol: Protocol) -> None:
    assert protocol.name in get_args(ProtocolName)
    field = ConnectorSettings.model_fields[protocol.name]
    assert field.annotation is protocol.settings
    carried = (protocol.carries,) if protocol.carries else ()
    assert SPOKEN[protocol.name] == (protocol.name, *carried)


def test_no_connector_can_have_a_protocol_without_a_record() -> None:
    assert sorted(get_args(ProtocolName)) == sorted(SPOKEN) == sorted(PROTOCOLS) == PACKAGES


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda each: each.name)
def test_a_peer_that_begins_like_it_is_known(protocol: Protocol) -> None:
    assert {spoken(start + b"...") for start in protocol.openings} == {protocol.name.upper()}


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda each: each.name)
def test_every_connection_has_an_engine_its_own_or_that_of_what_it_carries(
    protocol: Protocol,
) -> None:
    assert (protocol.engine_maker is None) == bool(protocol.carries)
    assert PROTOCOLS[protocol.carries or protocol.name].engine_maker is not None


def test_a_message_of_every_protocol_can_be_read_back() -> None:
    assert sorted(decoders()) == PACKAGES
