"""Every row of docs/selectors.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.core.errors import RefusedError
from covey.core.selector import compile_selector

PAGE = (Path(__file__).parents[3] / "docs" / "selectors.md").read_text(encoding="utf-8")
MATCHING = re.findall(r"^\| `(.+?)` \| (`.+`) \| (yes|no) \|$", PAGE, re.MULTILINE)
REFUSED = re.findall(r"^\| `(.+?)` \| `(column .+)` \|$", PAGE, re.MULTILINE)


def test_the_page_has_its_rows() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(MATCHING) + len(REFUSED)
    assert len(MATCHING) > 30
    assert len(REFUSED) > 5


@pytest.mark.parametrize(("selector", "headers", "answer"), MATCHING)
def test_a_row_matches_as_the_page_says(selector: str, headers: str, answer: str) -> None:
    pairs = [header.split(":", 1) for header in re.findall(r"`(.+?)`", headers)]
    lookup = {name: value for name, value in pairs}.get
    assert compile_selector(selector).matches(lookup) is (answer == "yes")


@pytest.mark.parametrize(("selector", "reason"), REFUSED)
def test_a_row_is_refused_as_the_page_says(selector: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        compile_selector(selector)
    assert refusal.value.text == f"selector, {reason}"
    assert refusal.value.code == "invalid"
