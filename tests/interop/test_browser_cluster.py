"""The console's page of a cluster, at a broker of two: who serves what, a move, a drain."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import Node, ending, owners, wait_until
from tests.e2e.support import LOGIN, PASSCODE
from tests.interop.browser import Tab, address_of, press
from tests.interop.test_browser_pages import PHONE, axe_finds

pytestmark = pytest.mark.interop

SPACES = ("default", "one")


def test_virtual_hosts_are_shown_moved_and_drained(browser: Browser, tmp_path: Path) -> None:
    server = Server()
    nodes: list[Node] = []
    try:
        with ending(nodes):
            postgres = Postgres(server)
            nodes += [Node(tmp_path, postgres, name, spaces=SPACES) for name in "ab"]
            brokers = [node.served() for node in nodes]
            wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
            moved = next(space for space, owner in owners(brokers[0]).items() if owner == "a")
            tab = Tab(browser, address_of(brokers[0]))
            tab.sign_in(LOGIN, PASSCODE, "#/cluster")
            line = tab.page.locator("section[aria-label='Virtual hosts'] tbody tr")
            row = line.filter(has_text=moved)
            expect(row.locator("td").nth(1)).to_have_text("a")
            assert axe_finds(tab, "cluster") == []
            row.get_by_role("button", name="Move").click()
            tab.page.locator("dialog").get_by_role("button", name="Move").click()
            expect(row.locator("td").nth(1)).to_have_text("b")

            node = tab.page.locator("section[aria-label='Brokers'] tbody tr").filter(has_text="b")
            node.last.get_by_role("button", name="Drain").click()
            expect(node.last.locator("td").nth(1)).to_have_text("drains")
            expect(line.locator("td:nth-child(2)")).to_have_text(["a", "a"])
            press(tab.page, "Let it serve")
            expect(node.last.locator("td").nth(1)).to_have_text("serves")
            tab.page.set_viewport_size({"width": PHONE, "height": 844})
            is_wide = "document.documentElement.scrollWidth > window.innerWidth"
            assert not tab.page.evaluate(is_wide)
            tab.close()
    finally:
        server.remove()
