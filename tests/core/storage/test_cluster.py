"""Placement: what each broker of a cluster takes and gives, worked out from the same two tables."""

from __future__ import annotations

from collections import Counter

import pytest

from covey.core.storage.cluster import PATIENCE_S, ClusterView, NodeRow, SpaceLoad, SpaceRow, plan

SPACES = frozenset(f"s{number}" for number in range(6))
LONG_AGO = 100.0
NOW = 10_000.0


def node(
    name: str,
    *,
    is_draining: bool = False,
    up_s: float = 1000.0,
    serves: frozenset[str] = SPACES,
    busy: tuple[str, ...] = (),
    idle: tuple[str, ...] = (),
) -> NodeRow:
    loads = {each: SpaceLoad(0, 1) for each in busy} | {each: SpaceLoad(0, 0) for each in idle}
    return NodeRow(name, "", "1", "", is_draining, up_s, serves, loads)


def owned(space: str, owner: str | None, **given: object) -> SpaceRow:
    row = SpaceRow(space, owner, 1, LONG_AGO, 5.0 if owner else 0.0)
    return row._replace(**given)  # type: ignore[arg-type]


def view(nodes: list[NodeRow], spaces: list[SpaceRow]) -> ClusterView:
    return ClusterView(tuple(nodes), tuple(spaces), NOW)


def mine(seen: ClusterView, me: str) -> set[str]:
    return {space.space for space in seen.spaces if space.owner == me}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_virtual_hosts_without_an_owner_are_shared_out_evenly_and_each_once(count: int) -> None:
    nodes = [node(f"n{number}") for number in range(count)]
    seen = view(nodes, [owned(space, None) for space in SPACES])
    taken = {one.node: plan(seen, one.node, (), {}, 10).take for one in nodes}
    assert Counter(space for each in taken.values() for space in each) == Counter(SPACES)
    sizes = [len(each) for each in taken.values()]
    assert max(sizes) - min(sizes) <= 1


def test_what_a_dead_broker_had_goes_to_those_that_have_fewest_and_nothing_else_moves() -> None:
    spaces = [owned("s0", "a"), owned("s1", "a"), owned("s2", "b"), owned("s3", None)]
    seen = view([node("a"), node("b")], spaces)
    assert plan(seen, "a", mine(seen, "a"), {}, 10).take == []
    assert plan(seen, "b", mine(seen, "b"), {}, 10) == (["s3"], {})


def test_the_next_in_order_takes_what_the_first_one_leaves_lying() -> None:
    seen = view([node("a"), node("b")], [owned("s0", "a"), owned("s3", None)])
    assert plan(seen, "a", {"s0"}, {"s3": PATIENCE_S - 0.1}, 10).take == []
    assert plan(seen, "a", {"s0"}, {"s3": PATIENCE_S}, 10).take == ["s3"]


def test_a_broker_takes_nothing_that_its_configuration_lacks() -> None:
    seen = view([node("a", serves=frozenset({"s0"})), node("b")], [owned("s1", None)])
    assert plan(seen, "a", (), {"s1": 100.0}, 10).take == []
    assert plan(seen, "b", (), {}, 10).take == ["s1"]


def test_who_is_named_for_a_virtual_host_takes_it_though_it_has_more() -> None:
    seen = view([node("a"), node("b")], [owned("s0", "a"), owned("s1", None, wish="a")])
    assert plan(seen, "a", {"s0"}, {}, 10).take == ["s1"]
    assert plan(seen, "b", (), {}, 10).take == []


def test_an_owner_gives_what_an_operator_wants_elsewhere_but_not_to_the_dead() -> None:
    spaces = [owned("s0", "a", wish="b"), owned("s1", "a", wish="gone")]
    seen = view([node("a"), node("b")], spaces)
    assert plan(seen, "a", mine(seen, "a"), {}, 0).give == {"s0": "b"}


def test_a_broker_that_drains_gives_everything_and_takes_nothing() -> None:
    spaces = [owned("s0", "a"), owned("s1", "a"), owned("s2", "b"), owned("s3", None)]
    seen = view([node("a", is_draining=True), node("b"), node("c")], spaces)
    found = plan(seen, "a", mine(seen, "a"), {"s3": 100.0}, 10)
    assert found.take == []
    assert set(found.give) == {"s0", "s1"}
    assert set(found.give.values()) <= {"b", "c"}


def test_if_all_drain_they_go_on_serving() -> None:
    nodes = [node("a", is_draining=True), node("b", is_draining=True)]
    seen = view(nodes, [owned("s0", "a"), owned("s1", None)])
    assert plan(seen, "a", {"s0"}, {}, 10).give == {}
    assert [plan(seen, name, (), {}, 10).take for name in "ab"] == [[], ["s1"]]


def test_a_broker_that_joins_gets_its_share_one_at_a_time() -> None:
    spaces = [owned(space, "a") for space in sorted(SPACES)[:4]]
    seen = view([node("a", idle=("s0", "s1", "s2", "s3")), node("b", up_s=1.0)], spaces)
    given = 0
    while give := plan(seen, "a", mine(seen, "a"), {}, 10).give:
        assert list(give.values()) == ["b"]
        moved = [row if row.space not in give else owned(row.space, "b") for row in seen.spaces]
        seen = seen._replace(spaces=tuple(moved))
        given += 1
    assert given == 2
    assert plan(seen, "b", mine(seen, "b"), {}, 10).give == {}


def test_one_with_connections_moves_only_when_nothing_has_moved_for_a_while() -> None:
    spaces = [owned("s0", "a"), owned("s1", "a")]
    calm = view([node("a", busy=("s0", "s1")), node("b")], spaces)
    assert plan(calm, "a", {"s0", "s1"}, {}, 10).give == {"s0": "b"}
    just_moved = calm._replace(spaces=(spaces[0], owned("s1", "a", since=NOW - 5)))
    assert plan(just_moved, "a", {"s0", "s1"}, {}, 10).give == {}
    just_up = calm._replace(nodes=(calm.nodes[0], node("b", up_s=5.0)))
    assert plan(just_up, "a", {"s0", "s1"}, {}, 10).give == {}
    assert plan(calm, "a", {"s0", "s1"}, {}, 0).give == {}


def test_what_an_operator_has_put_somewhere_stays_there() -> None:
    spaces = [owned("s0", "a", is_pinned=True), owned("s1", "a", is_pinned=True)]
    seen = view([node("a", idle=("s0", "s1")), node("b")], spaces)
    assert plan(seen, "a", {"s0", "s1"}, {}, 10).give == {}


def test_only_the_fullest_gives_so_that_nobody_gets_too_many_at_once() -> None:
    spaces = [owned(f"s{at}", "ab"[at % 2]) for at in range(6)]
    seen = view(
        [node("a", idle=("s0", "s2", "s4")), node("b", idle=("s1", "s3", "s5")), node("c")], spaces
    )
    gives = [plan(seen, name, mine(seen, name), {}, 10).give for name in "abc"]
    assert [len(each) for each in gives] == [0, 1, 0]
