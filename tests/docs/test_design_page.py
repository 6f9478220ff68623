"""The tour: its walks are the real ones, its rooms are all the rooms, its words are explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.tour.imports import rooms
from scripts.tour.walk import WALKS, steps_of

PAGE = (Path(__file__).parents[2] / "docs/design.md").read_text()
WALK = re.compile(r"^`scripts/walk (\w+)`: (.*?)(?=^##)", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w/]+\.py)`")
ROW = re.compile(r"^\| ([^|]+?) \|", re.MULTILINE)
LINK_HERE = re.compile(r"\]\(#([\w-]+)\)")
METAPHORS = ["lane", "gate", "view", "turn", "window"]


def part(heading: str) -> str:
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_every_walk_is_told() -> None:
    assert [name for name, _ in WALK.findall(PAGE)] == list(WALKS)


@pytest.mark.parametrize(("name", "text"), WALK.findall(PAGE), ids=list(WALKS))
def test_every_file_that_a_walk_names_is_on_the_real_one(name: str, text: str) -> None:
    real = {step.callee for step in steps_of(name)}
    named = FILE.findall(text)
    assert len(named) >= 5
    assert [file for file in named if file not in real] == []


def test_every_room_has_its_line_in_the_order_of_the_picture() -> None:
    named = re.findall(r"^\| `(?:src/covey/)?([\w/]+)/` \|", part("Rooms"), re.MULTILINE)
    assert named == rooms()


def test_the_five_metaphors_are_explained_and_no_word_twice() -> None:
    words = [word for word in ROW.findall(part("Words")) if word not in ("metaphor", "word", "---")]
    assert words[:5] == METAPHORS
    assert len(set(words)) == len(words)


def test_every_change_names_a_file_and_a_test() -> None:
    rows = [row for row in part(r"Where do I change \.\.\.\?").splitlines() if row[:2] == "| "][1:]
    assert len(rows) >= 20
    for row in rows:
        _, _, files, tests, _ = (cell.strip() for cell in row.split("|"))
        assert "`" in files and "`tests/" in tests, row


def test_links_within_the_page_lead_to_its_headings() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    places = {re.sub(r"[^\w\s-]", "", text.lower()).replace(" ", "-") for text in headings}
    assert set(LINK_HERE.findall(PAGE)) - places == set()
