"""Page: what people see, and that no name can become markup."""

from __future__ import annotations

import time
from html.parser import HTMLParser

import pytest

from covey.core.host.virtual_host import VirtualHost
from covey.core.management.describe import Attributes
from covey.protocols.http import status_page as page_module
from covey.protocols.http.status_page import Column, age, size, table, tiles
from tests.protocols.http.support import World, make_settings

PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</td></tr></table><script>alert(1)</script>",
    "<!--",
    "]]><x>",
    "<meta http-equiv=refresh content=0>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "\x00<b>",
    "${7*7}{{7*7}}",
    "<plaintext>",
]
KNOWN_TAGS = frozenset(
    "html head meta title link body h1 h2 p ul li b table tr th td meter nav a div".split()
)
KNOWN_ATTRIBUTES = frozenset(
    "lang charset http-equiv content name rel href class min max value id".split()
)


class Tags(HTMLParser):
    """All tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.comments = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value or "" for name, value in attrs if tag == "a" and name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def shown(world: World, query: str = "") -> Tags:
    answer = world.ask("GET", f"/{query}")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Tags(answer.text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_things_are_called_the_page_stays_ours(
    payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.send("q", payload)
    queue = world.host.queues["q"]
    queue.name = payload
    world.host.id = payload
    session = world.read("q", link=payload)
    session.identity = type(session.identity)(payload)
    session.protocol = session.remote = session.client_id = payload
    session.block(payload, time.monotonic())
    (lane,) = queue.state.lanes.values()
    lane.why = payload
    lane.blocked_since = 1.0
    tags = shown(world)
    assert set(tags.tags) <= KNOWN_TAGS
    assert set(tags.attributes) <= KNOWN_ATTRIBUTES
    assert tags.tags.count("meta") == 3
    assert tags.comments == 0
    assert all(link.startswith(("/?", "#connection-")) for link in tags.links)
    # Each field shows the text itself: queue, group, its queue, owner, why, host, connection's six.
    assert tags.texts.count(payload) >= 9


def test_a_group_that_waits_stands_first_with_owner_and_reason() -> None:
    world = World()
    for group in ("fine", "stuck"):
        world.send("q", group)
    world.read("q", credit=0, link="worker-7")
    world.ask("POST", "/api/v1/queues/q/groups/stuck/park")
    texts = shown(world).texts
    assert texts.index("stuck") < texts.index("fine")
    assert "parked" in " ".join(texts)


def test_an_owner_is_named_by_its_client_and_leads_to_its_connection() -> None:
    world = World()
    world.send("q", "g")
    session = world.read("q", link="0")
    session.client_id = "worker-7"
    tags = shown(world)
    assert "1: worker-7" in tags.texts
    assert tags.links.count(f"#connection-{session.id}") == 2  # the owner, and the consumer
    assert f'<tr id="connection-{session.id}">' in world.ask("GET", "/").text


def test_a_queue_has_a_page_of_its_own_and_a_page_can_stay_as_it_is() -> None:
    world = World()
    for name in ("a&b", "other"):
        world.send(name, f"of {name}")
    assert "/?queue=a%26b" in shown(world).links
    tags = shown(world, "?queue=a%26b&refresh=0")
    assert "of a&b" in tags.texts
    assert "of other" not in tags.texts
    assert tags.tags.count("meta") == 2
    assert tags.links[:2] == ["/?refresh=0", "/?queue=a%26b"]  # all queues; renewed again


def test_other_virtual_hosts_are_a_link_away() -> None:
    hosts = [{"id": name, "host_names": [f"{name}.example"]} for name in ("one", "two")]
    world = World(make_settings(virtual_host=hosts))
    answer = world.ask("GET", "/?host=two.example", headers={"host": "one.example"})
    assert '<a href="/?host=one.example">one</a> <b>two</b>' in answer.text


def test_what_blocks_producers_stands_above_everything_and_their_connections_first() -> None:
    world = World()
    world.session()
    world.session().block("queue q is full", time.monotonic())
    world.broker.commits.overload.press("the disk has 5 bytes left")
    text = world.ask("GET", "/").text
    assert text.index("Producers wait: the disk has 5 bytes left") < text.index("Queues")
    assert text.index('id="connection-2"') < text.index('id="connection-1"')


def test_long_tables_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "ROWS_MAX", 2)
    world = World()
    for number in range(5):
        world.send(f"q{number}")
    assert "2 of 5 are shown" in shown(world).texts


def test_the_page_renews_itself_and_an_empty_broker_is_no_error() -> None:
    text = World().ask("GET", "/").text
    assert '<meta http-equiv="refresh" content="5">' in text
    assert isinstance(World().host, VirtualHost)


def test_the_style_is_css() -> None:
    answer = World().ask("GET", "/status.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"


# How values are written for people.


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 m 0 s"),
        (3599.9, "59 m 59 s"),
        (3600.0, "1 h 0 m"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_an_age_has_the_two_units_that_matter(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**2, "5.0 MiB"), (2**60, None)],
)
def test_a_size_has_its_unit(count: int, text: str | None) -> None:
    assert size(count) == (text or f"{2**60 / 2**40:.1f} TiB")


def test_a_bar_is_drawn_against_the_largest_of_its_column() -> None:
    columns = (Column("N", "n", "bar"),)
    written = table("T", columns, [{"n": 3}, {"n": 12}], 2)
    assert '3 <meter min="0" max="12" value="3"></meter>' in written
    assert '12 <meter min="0" max="12" value="12"></meter>' in written
    assert 'max="1" value="0"' in table("T", columns, [{"n": 0}], 1)


def test_no_value_becomes_markup() -> None:
    row: Attributes = {"name": "<b>", "why": '"&'}
    written = table("T", (Column("<", "name"), Column("W", "why", "prose")), [row], 1)
    assert "<td>&lt;b&gt;</td>" in written
    assert '<td class="prose">&quot;&amp;</td>' in written
    assert "<th>&lt;</th>" in written
    assert tiles([("<i>", "<u>")]) == "<ul><li><b>&lt;i&gt;</b> &lt;u&gt;</li></ul>"


def test_rows_that_are_left_out_are_counted() -> None:
    assert "1 of 9 are shown" in table("T", (Column("N", "n"),), [{"n": 1}], 9)
    assert "none" in table("T", (Column("N", "n"),), [], 0)
