"""A configuration's digest: the same for brokers that are to do the same, and for no others."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from covey.config.digest import digest
from covey.config.settings import (
    BrokerSettings,
    ClusterSettings,
    ConnectorSettings,
    Settings,
    StoreSettings,
    UserSettings,
)


def test_what_is_each_brokers_own_does_not_count() -> None:
    other = Settings(
        store=StoreSettings(path="elsewhere"),
        cluster=ClusterSettings(node="b", forward="127.0.0.1:61700"),
        connector=(
            ConnectorSettings(id="stomp", protocol="stomp", bind="10.0.0.1:61613"),
            *Settings().connectors[1:],
        ),
    )
    assert digest(other) == digest(Settings())
    assert len(digest(other)) == 12


@pytest.mark.parametrize(
    "other",
    [
        Settings(broker=BrokerSettings(queues_max=7)),
        Settings(cluster=ClusterSettings(lease_s=5)),
        Settings(user=(UserSettings(name="admin", password=SecretStr("other"), roles=("admin",)),)),
    ],
)
def test_everything_else_does_and_so_do_passwords(other: Settings) -> None:
    assert digest(other) != digest(Settings())
