"""Catalogue: what there is in one virtual host, and nothing of another's.

The group view: the oldest message wherever it is, and each wait with its own time.
"""

from __future__ import annotations

import pytest

from covey.config.settings import VirtualHostSettings
from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.management.catalogue import Catalogue, consumers
from covey.core.management.describe import ATTRIBUTES, Attributes
from covey.core.management.pages import whole
from covey.core.model.entry import Outcome
from covey.core.publishing.transactions import Transaction
from covey.core.queue import policy as commands
from covey.core.security.users import Identity
from tests.core.double import Room
from tests.core.support import Bench
from tests.doubles import NOBODY

HOSTS = tuple([VirtualHostSettings(id=name, host_names=(name,)) for name in ("one", "two")])


def test_one_host_shows_nothing_of_another() -> None:
    room = Room(hosts=HOSTS)
    room.enter().read("/queue/a,/topic/t")
    other = Broker(room.broker.settings, shared=room.broker.shared, space="two")
    one, two = [Catalogue(broker, broker.host) for broker in (room.broker, other)]
    for type_name in ("queue", "topic", "connection", "consumer"):
        assert one.entities(type_name, room.now)
        assert two.entities(type_name, room.now) == []
    with pytest.raises(RefusedError, match="there is no connection 1"):
        two.session("1")


def test_topic_shows_those_who_hear_it_by_a_pattern_though_it_was_not_used_since() -> None:
    room = Room()
    host = room.broker.host
    host.topic("a.b")
    room.enter().read("/topic/a.*")
    catalogue = Catalogue(room.broker, host)
    assert catalogue.read("topic", "a.b", room.now)["subscribers"] == 1


def test_groups_of_durable_subscriptions_are_shown_too() -> None:
    room = Room()
    host = room.broker.host
    session = room.broker.open(host, Identity("admin"), room.now)
    durable = host.make_durable("d")
    durable.queue.placement.lane_for("g")
    assert session in Catalogue(room.broker, host).sessions()
    names = [group["name"] for group in Catalogue(room.broker, host).entities("group", room.now)]
    assert names == ["dsub:d/g"]


def test_type_that_is_none_is_told_with_those_that_are() -> None:
    room = Room()
    with pytest.raises(RefusedError, match=f"there are {', '.join(ATTRIBUTES)}"):
        Catalogue(room.broker, room.broker.host).entities("exchange", room.now)


def test_pages_of_groups_run_over_the_borders_of_queues() -> None:
    room = Room()
    host = room.broker.host
    for name, groups in (("a", "123"), ("b", ""), ("c", "45")):
        for group in groups:
            host.queue(name).placement.lane_for(group)
    catalogue = Catalogue(room.broker, host)
    for start in range(6):
        for count in range(1, 7):
            rows, total = catalogue.page("group", room.now, start, count)
            assert "".join(str(row["group"]) for row in rows) == "12345"[start : start + count]
            assert total == 5


def test_readers_of_one_queue_are_its_consumers_and_browsers() -> None:
    room = Room()
    room.enter().read("/queue/a")
    room.enter().read("/queue/b")
    queue = room.broker.host.queues["a"]
    rows, total = whole(consumers(queue))
    assert ([row["source"] for row in rows], total) == (["a"], 1)


def _group(bench: Bench) -> Attributes:
    return bench.groups()["a"]


def test_the_oldest_message_may_be_one_that_was_set_aside() -> None:
    bench = Bench()
    reader = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.pump()
    bench.wait(60)
    bench.send("a", colour="red")
    bench.pump()
    assert reader.held() == [2]
    group = _group(bench)
    assert (group["messages"], group["oldest_seq"], group["oldest_s"]) == (2, 1, 60.0)


def test_the_oldest_message_may_be_in_a_transaction() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send_all("aa")
    bench.pump()
    transaction = Transaction(10, 10)
    transaction.settle(reader.unsettled[1], Outcome.ACCEPTED, 1.0)
    NOBODY.transactions["t"] = transaction
    try:
        assert _group(bench)["oldest_seq"] == 1
    finally:
        del NOBODY.transactions["t"]


def test_a_group_that_was_parked_before_it_drains_has_both_times() -> None:
    bench = Bench()
    bench.join(1)
    bench.send_all("aa")
    bench.pump()
    commands.park(bench.queue, "a", bench.now, parked=True)
    commands.close_group(bench.queue, "a", bench.now)
    bench.wait(100)
    commands.park(bench.queue, "a", bench.now, parked=False)
    bench.wait(1)
    group = _group(bench)
    assert (group["state"], group["blocked_s"], group["draining_s"]) == ("draining", 101.0, 1.0)
