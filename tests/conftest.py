"""What holds for every test: hypothesis draws the same examples in every run.

A run that fails must fail again. `COVEY_RANDOM=1` draws new examples each time, for a search.
`COVEY_WATCH_SLICES=1` raises where a compiled build would fail (`tests.properties.slices`).

`scripts/test` shares the tests out to one process a core. What a process is given is a file: its
fixtures start once then. All tests of Spark are given to one process, for they share one Spark.
Long ones come first, so that no process ends long after the others.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.properties.slices import watch

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("COVEY_RANDOM") else "repeatable")
if os.environ.get("COVEY_WATCH_SLICES"):
    watch()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the group of each test and put the long files first, if several processes share."""
    if not config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    groups = {item: _group(item) for item in items}
    long = {groups[item] for item in items if item.get_closest_marker("slow")}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (groups[item] != "spark", groups[item] not in long))


def _group(item: pytest.Item) -> str:
    return "spark" if item.get_closest_marker("spark") else item.nodeid.partition("::")[0]
