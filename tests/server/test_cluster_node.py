"""ClusterNode: what it logs about the others, and how it keeps from hammering the database."""

from __future__ import annotations

import asyncio
import time

import pytest
import structlog
from structlog.testing import capture_logs

from covey.config.settings import ClusterSettings, Settings, StoreSettings
from covey.core.storage.cluster import ClusterView
from covey.server.cluster_node import ClusterNode
from covey.server.spaces import Spaces

SETTINGS = Settings(
    store=StoreSettings(kind="postgres", dsn="host=nowhere"), cluster=ClusterSettings(node="a")
)


def make_node() -> ClusterNode:
    """Make a node that has not joined: nothing here asks the database."""
    log = structlog.get_logger()
    return ClusterNode(Spaces(SETTINGS, log, asyncio.new_event_loop()), SETTINGS, log)


def test_a_clock_that_disagrees_with_the_databases_is_told_once_until_it_agrees_again() -> None:
    node = make_node()
    with capture_logs() as lines:
        for skew_s in (0.5, 3600.0, 3600.0, 0.0, -10.0):
            node._view = ClusterView(wall_s=time.time() - skew_s)
            node._tell_differences()
    assert [line["event"] for line in lines] == ["clocks_disagree"] * 2
    assert [round(line["seconds"]) for line in lines] == [3600, -10]


def test_a_virtual_host_that_fails_again_and_again_is_tried_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    node = make_node()
    pauses: list[float] = []
    for _ in range(8):
        node.lost("default", is_fenced=False)
        pauses.append(node._postponed["default"].at - now)
        now = node._postponed["default"].at + 0.5  # it could be opened, and then failed again
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    now += 61  # it was served for long
    node.lost("default", is_fenced=False)
    assert node._postponed["default"].at - now == 1


def test_a_virtual_host_that_another_broker_has_taken_is_counted_and_not_put_off() -> None:
    node = make_node()
    node.lost("default", is_fenced=True)
    assert (node.fenced, node._postponed) == (1, {})
