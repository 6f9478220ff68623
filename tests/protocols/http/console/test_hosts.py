"""Hosts: all virtual hosts in one list, whoever serves them."""

from __future__ import annotations

from covey.core.management.history import Measures
from tests.doubles import KnownCluster
from tests.protocols.http.support import Json, World, make_settings

SPACES = ("here", "there", "nowhere")


def world() -> World:
    entries = [{"id": name, "host_names": [f"{name}.example"]} for name in SPACES]
    return World(make_settings(virtual_host=entries))


def rows(found: World) -> dict[str, Json]:
    return {row["id"]: row for row in found.get("/api/v1/hosts")["items"]}


def test_each_virtual_host_is_listed_with_what_it_holds() -> None:
    found = world()
    found.send("orders", "g")
    list(found.app.console.history.sample(Measures(), 1.0, 1.0))
    list(found.app.console.history.sample(Measures(), 2.0, 2.0))
    assert list(rows(found)) == list(SPACES)
    first = rows(found)["here"]
    assert (first["name"], first["messages"], first["queues"]) == ("here.example", 1, 1)
    assert first["served_by"] == ""


def test_one_that_another_broker_serves_has_what_the_cluster_knows() -> None:
    found = world()
    found.directory.shared.cluster = KnownCluster()
    for name in ("there", "nowhere"):
        found.directory.brokers.pop(name, None)
    listed = rows(found)
    assert listed["there"]["served_by"] == "b"
    assert listed["there"]["enqueued"] is None
    assert listed["nowhere"]["served_by"] is None


def test_a_page_may_choose_any_virtual_host_also_those_of_others() -> None:
    found = world()
    found.directory.brokers.pop("there", None)
    session = found.get("/api/v1/session")
    assert [host["id"] for host in session["hosts"]] == list(SPACES)
    assert (session["is_clustered"], session["workers"]) == (False, 1)
