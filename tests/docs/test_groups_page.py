"""The pages name the strategies that the registry has, with their names, options and limits."""

from __future__ import annotations

from covey.groups import STRATEGIES
from tests.docs.strategy_tables import GROUPS, lacking


def test_every_page_names_every_strategy_and_every_option() -> None:
    assert lacking() == []


def test_no_section_is_about_a_strategy_that_is_not_there() -> None:
    sections = [line for line in GROUPS.read_text().splitlines() if line.startswith("### `")]
    assert [line.split("`")[1] for line in sections] == list(STRATEGIES)
