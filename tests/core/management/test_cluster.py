"""What operators see of a cluster and ask of it, through the one API for management."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.management import cluster
from tests.doubles import KnownCluster

NOW = 0.0


def test_the_list_has_the_fields_that_programs_know() -> None:
    listed = cluster.listing(KnownCluster(), NOW)
    spaces, nodes = listed["spaces"], listed["nodes"]
    assert isinstance(spaces, list) and isinstance(nodes, list)
    assert spaces[0] == {
        "space": "here", "owner": "here", "epoch": 2, "since": "2001-09-09T01:46:40Z",
        "lease_left_s": 4.0, "messages": 3, "connections": 2, "moves_to": None,
    }  # fmt: skip
    assert [row["owner"] for row in spaces] == ["here", None, "b"]
    assert nodes[0] == {
        "node": "b", "address": "b:1", "version": "1", "draining": False,
        "load": {"spaces": 1, "messages": 0, "connections": 0}, "config_digest": "x", "up_s": 9.0,
    }  # fmt: skip


def test_without_a_cluster_there_is_nothing_to_see_and_nothing_to_steer() -> None:
    assert cluster.rows(None, "space", NOW) == []
    with pytest.raises(RefusedError, match="not one of a cluster"):
        cluster.listing(None, NOW)
    with pytest.raises(RefusedError, match="not one of a cluster"):
        cluster.change(None, "space", "here", {"owner": "b"}, NOW)


def test_what_is_asked_for_is_asked_of_the_brokers() -> None:
    known = KnownCluster()
    cluster.change(known, "space", "here", {"owner": "b"}, NOW)
    cluster.change(known, "node", "here", {"draining": True}, NOW)
    assert known.asked == [("move", "here", "b"), ("drain", "here", True)]


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "words"),
    [
        ("space", "x", {"owner": "b"}, "there is no virtual host x"),
        ("space", "here", {"owner": "c"}, "there is no node c now; there are b, here"),
        ("space", "here", {"owner": 7}, "owner is to be the name of a node"),
        ("space", "here", {"epoch": 7}, "only owner can be changed"),
        ("space", "nowhere", {"owner": "b"}, "no virtual host nowhere in its configuration"),
        ("node", "c", {"draining": True}, "there is no node c"),
        ("node", "b", {"draining": "yes"}, "draining is to be true or false"),
    ],
)
def test_what_cannot_be_is_refused(
    kind: str, name: str, wanted: dict[str, object], words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        cluster.change(KnownCluster(), kind, name, wanted, NOW)


def test_nothing_is_asked_while_the_database_does_not_answer() -> None:
    known = KnownCluster()
    known.age = 7.0
    with pytest.raises(RefusedError, match="has not answered for 7 s"):
        cluster.change(known, "space", "here", {"owner": "b"}, NOW)


def test_a_virtual_host_that_is_elsewhere_is_told_with_its_owner() -> None:
    known = KnownCluster()
    assert known.whereabouts("there", NOW) == "virtual host there is served by node b (b:1)"
    assert known.whereabouts("nowhere", NOW) == "virtual host nowhere is served by nobody now"
    assert "is about to be served here" in known.whereabouts("here", NOW)
    assert known.owner("here", NOW) is None
