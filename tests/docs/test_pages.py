"""All pages: links lead somewhere, configurations load, README's first frames are answered."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from covey.config.load import load
from tests.protocols.stomp.support import World

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
PLACE = re.compile(r"`((?:core|protocols|groups|config|pipeline|scripts|tests|docs|src)/[\w/.-]+)`")
FRAME = re.compile(r"^    [A-Z]+\n(?:    .*\n|\n)*?    \^@\n", re.MULTILINE)
CONFIGURATION = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)

CONFIGURATIONS = [
    (page, text) for page in PAGES for text in CONFIGURATION.findall(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_names_of_files_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [place for place in PLACE.findall(text) if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(("page", "text"), CONFIGURATIONS, ids=lambda each: "")
def test_configurations_load(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / f"{page.stem}.toml"
    file.write_text(text)
    assert load(file, {}, {}).settings


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>=;]", one)[0] for one in wanted} - {project["name"]}
    page = (ROOT / "docs/decisions/002-dependencies.md").read_text()
    assert [name for name in sorted(names) if name not in page] == []


def frames(page: str) -> list[str]:
    """Return the frames that a page has people type, with NUL written as ^@."""
    found = FRAME.findall((ROOT / page).read_text())
    return ["\n".join(line[4:] for line in frame.splitlines()) for frame in found]


@pytest.mark.parametrize("earlier", range(11))
def test_the_five_minutes_of_readme_are_answered_as_it_says(earlier: int) -> None:
    """In two terminals, on a broker that has had some consumers: their numbers move the ring."""
    connect, subscribe, first, second, other, ack = frames("README.md")
    world = World()
    for _ in range(earlier):
        visitor = world.connect()
        visitor.subscribe("/queue/orders")
        visitor.lose()
    terminals = [world.stranger(), world.stranger()]
    for terminal in terminals:
        terminal.say(connect)
        terminal.take("CONNECTED")
        terminal.say(subscribe)
    for send in (first, second):
        terminals[0].say(send)
    terminals.sort(key=lambda terminal: not terminal.inbox)
    busy, idle = terminals
    got = busy.take("MESSAGE")
    assert got.body == b"create it\n"
    assert (busy.inbox, idle.inbox) == ([], [])  # the second waits, though somebody is idle
    busy.say(other)
    assert (idle.take("MESSAGE")["message_group"], busy.inbox) == ("order-16", [])
    busy.say(ack.replace("<the message-id you got>", got["message-id"]))
    assert busy.take("MESSAGE").body == b"change it\n"
    assert (busy.inbox, idle.inbox) == ([], [])


@pytest.mark.parametrize("page", ["docs/groups.md", "docs/durability.md"])
def test_frames_in_the_text_are_frames(page: str) -> None:
    (send,) = frames(page)
    client = World().connect()
    client.say(send)
    client.say("SUBSCRIBE\nid:s\ndestination:/queue/orders\n\n^@")
    assert [frame.command for frame in client.inbox if frame.command == "ERROR"] == []
    assert [frame.body for frame in client.inbox if frame.body] == [b"create it\n"]
