"""Two STOMP clients of one broker, for the manual's examples."""

from __future__ import annotations

import pytest

from tests.protocols.stomp.support import Client, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    """Somebody who sends."""
    return world.connect()


@pytest.fixture
def other(world: World) -> Client:
    """Somebody else, who mostly reads."""
    return world.connect()
