"""The picture of the rooms is today's, and its lines go down only."""

from __future__ import annotations

from xml.etree import ElementTree

from scripts.tour.imports import imports, rooms
from scripts.tour.rooms import PICTURE, WORDS, draw


def test_the_picture_on_the_page_is_what_today_s_imports_draw() -> None:
    assert PICTURE.read_text() == draw(), "the imports have changed: run scripts/rooms"


def test_every_room_of_the_source_has_a_floor_and_words() -> None:
    assert sorted(rooms()) == sorted(WORDS)


def test_every_import_goes_down() -> None:
    floors = {room: floor for floor, room in enumerate(rooms())}
    assert [pair for pair in imports() if floors[pair[0]] >= floors[pair[1]]] == []


def test_imports_are_counted_by_file_and_those_for_types_alone_are_not() -> None:
    found = imports()
    assert found["core/queue", "core/dispatch"] > 1
    assert found["core/model", "core/queue"] == 0  # an entry names its queue's type


def test_the_picture_is_svg_without_anything_from_elsewhere() -> None:
    tree = ElementTree.fromstring(draw())
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert [element for element in tree.iter() if "href" in str(element.attrib)] == []
    assert "url(" not in draw() and "@import" not in draw()
