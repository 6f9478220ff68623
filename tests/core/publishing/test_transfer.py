"""Transfers: groups, single messages and dead letters that change their queue, in one commit."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.core.errors import RefusedError
from covey.core.management import transfers
from covey.core.management.admin import Admin
from tests.protocols.stomp.support import Client, World

DEAD = QueueSettings(id="q", dlq="dead", nak_limit=1)
DSUBS = QueueSettings(id="dsub:**", dlq="dead", nak_limit=1)


def admin_of(world: World) -> Admin:
    session = world.clients[0].session.core
    return Admin(world.broker, session.host, session.identity, "test", session)


def bodies(world: World, queue: str) -> list[str]:
    client = world.connect()
    client.subscribe(f"/queue/{queue}", browser="true", include_seq="seq")
    found = [frame.body.decode() for frame in client.take_all() if "browser" not in frame.headers]
    client.lose()
    return found


def filled(*settings: QueueSettings) -> tuple[World, Client]:
    world = World(queues=settings)
    client = world.connect()
    for number in range(6):
        client.publish("/queue/q", str(number), JMSXGroupID="ab"[number % 2])
    return world, client


def test_a_message_is_removed_and_put_in_one_turn() -> None:
    world, client = filled()
    job = transfers.move_group(admin_of(world), "q", "a", "r", world.now)
    assert job.answer("moved") == {"moved": 3, "held": 0}
    assert (bodies(world, "r"), bodies(world, "q")) == (["0", "2", "4"], ["1", "3", "5"])
    assert world.queue("/queue/q").counters.moved == 3
    client.subscribe("/queue/r", ack="client")
    assert [frame["JMSXGroupID"] for frame in client.take_all()] == ["a"] * 3


def test_while_a_group_is_worked_on_the_others_go_on() -> None:
    world, _ = filled()
    world.broker.jobs.portion = 1
    job = transfers.move_group(admin_of(world), "q", "a", "r", world.now)
    world.broker.jobs.portion = 1000
    assert not job.is_over
    reader = world.connect()
    reader.subscribe("/queue/q", ack="client")
    assert reader.bodies() == ["1", "3", "5"]
    shown = admin_of(world).read("group", "q/a", world.now)
    assert shown["why"] == "an operator's command works on its messages"
    with pytest.raises(RefusedError, match="another command works on group a"):
        transfers.purge_group(admin_of(world), "q", "a", world.now)
    world.broker.jobs.complete(job)
    world.settle_down()
    assert bodies(world, "r") == ["0", "2", "4"]


def test_what_comes_later_stays_and_what_comes_back_stays() -> None:
    world, client = filled()
    holder = world.connect()
    holder.subscribe("/queue/q", ack="client-individual", credit="1,0")
    held = holder.take()
    world.broker.jobs.portion = 1
    job = transfers.move_group(admin_of(world), "q", "a", "r", world.now)
    world.broker.jobs.portion = 1000
    client.publish("/queue/q", "late", JMSXGroupID="a")
    holder.ack(held, "NACK")
    world.broker.jobs.complete(job)
    world.settle_down()
    assert job.answer("moved") == {"moved": 2, "held": 1}
    assert bodies(world, "r") == ["2", "4"]
    assert sorted(bodies(world, "q")) == ["0", "1", "3", "5", "late"]


def test_a_full_target_makes_it_wait_or_ends_it() -> None:
    block = QueueSettings(id="r", quota_messages=1, full_policy="block")
    world, client = filled(block, QueueSettings(id="s", quota_messages=1, full_policy="reject"))
    job = transfers.move_group(admin_of(world), "q", "a", "r", world.now)
    assert (job.is_over, job.is_resting, bodies(world, "r")) == (False, True, ["0"])
    client.subscribe("/queue/r", id="r", ack="client-individual")
    client.ack(client.take())
    world.broker.go_on(world.now)
    assert job.count == 2
    world.broker.jobs.stop(job)
    other = transfers.move_group(admin_of(world), "q", "b", "s", world.now)
    with pytest.raises(RefusedError, match=r"queue s is full.*; 1 were moved before"):
        other.answer("moved")
    assert bodies(world, "s") == ["1"]


def test_a_purge_and_a_burial_need_what_they_need() -> None:
    world, _ = filled()
    with pytest.raises(RefusedError, match="queue q has no dlq"):
        transfers.dead_letter_group(admin_of(world), "q", "a", world.now)
    job = transfers.purge_group(admin_of(world), "q", "a", world.now)
    assert job.answer("purged") == {"purged": 3, "held": 0}
    assert transfers.purge_group(admin_of(world), "q", "none", world.now).count == 0
    with pytest.raises(RefusedError, match="there is no queue none"):
        transfers.purge_group(admin_of(world), "none", "a", world.now)


def test_the_rest_of_a_group_follows_its_dead_message() -> None:
    world, client = filled(QueueSettings(id="q", dlq="dead", nak_limit=1, dead_letter_rest=True))
    client.subscribe("/queue/q", ack="client-individual", credit="1,0")
    client.ack(client.take(), "NACK")
    world.broker.go_on(world.now)
    world.settle_down()
    assert bodies(world, "dead") == ["0", "2", "4"]
    assert client.take().body == b"1"
    reader = world.connect()
    reader.subscribe("/queue/dead", browser="true")
    reasons = [frame.headers.get("covey-dead-reason") for frame in reader.take_all()][:3]
    assert reasons == ["failed 1 times", *["behind 1, failed 1 times"] * 2]


def test_or_the_group_is_parked_as_by_command() -> None:
    world, client = filled(QueueSettings(id="q", dlq="dead", nak_limit=1, dead_letter_then="park"))
    client.subscribe("/queue/q", ack="client-individual", credit="1,0")
    client.ack(client.take(), "NACK")
    assert (bodies(world, "dead"), client.take().body) == (["0"], b"1")
    shown = admin_of(world).read("group", "q/a", world.now)
    assert shown["why"] == "parked: 1 died: failed 1 times"
    assert list(world.broker.host.queue_factory.parked.of("q")) == ["a"]


def test_a_dead_letter_tells_where_it_comes_from_and_goes_back_there() -> None:
    keyed = QueueSettings.model_validate({**DEAD.model_dump(), "groups": {"header": "key"}})
    world = World(queues=[keyed])
    client = world.connect(**{"client-id": "worker-7"})
    client.publish("/queue/q", "x", key="k")
    client.subscribe("/queue/q", id="s", ack="client-individual")
    client.ack(client.take(), "NACK")
    dead = world.connect()
    dead.subscribe("/queue/dead", ack="client-individual")
    letter = dead.take()
    told = {name: text for name, text in letter.headers.items() if name.startswith("covey-dead")}
    assert told == {
        "covey-dead-reason": "failed 1 times",
        "covey-dead-queue": "q",
        "covey-dead-group": "k",
        "covey-dead-seq": "1",
        "covey-dead-count": "1",
        "covey-dead-time": str(world.wall_ms),
        "covey-dead-consumer": "worker-7/s",
    }
    admin = admin_of(world)
    assert admin.read("group", "dead/k", world.now)["messages"] == 1
    (shown,) = transfers.look(admin, "dead", world.now, numbers=[1]).found
    assert shown["dead_origin"] == {
        "queue": "q",
        "group": "k",
        "seq": 1,
        "count": 1,
        "time": world.wall_ms,
        "consumer": "worker-7/s",
    }
    dead.lose()
    job = transfers.retry(admin_of(world), "dead", world.now)
    assert job.answer("retried") == {"retried": 1, "held": 0}
    world.settle_down()
    again = client.take()
    assert (again.body, again.headers.get("redelivered")) == (b"x", None)


def test_dead_letters_go_back_by_their_numbers_and_what_is_none_stays() -> None:
    world, client = filled(DEAD)
    transfers.dead_letter_messages(admin_of(world), "q", [2, 3, 4], world.now)
    client.publish("/queue/dead", "no letter")
    world.settle_down()
    job = transfers.retry_messages(admin_of(world), "dead", [1, 3, 4, 9], world.now)
    assert job.answer("retried") == {"retried": 2, "held": 0}
    assert (bodies(world, "q"), bodies(world, "dead")) == (
        ["0", "4", "5", "1", "3"],
        ["2", "no letter"],
    )


@pytest.mark.parametrize("policy", ["drop head", "drop tail"])
def test_nothing_is_dropped_for_what_an_operator_moves(policy: str) -> None:
    ring = QueueSettings.model_validate({"id": "r", "quota_messages": 2, "full_policy": policy})
    world, _ = filled(ring)
    job = transfers.move_group(admin_of(world), "q", "a", "r", world.now)
    with pytest.raises(RefusedError, match=r"queue r is full.*; 2 were moved before"):
        job.answer("moved")
    assert (bodies(world, "r"), bodies(world, "q")) == (["0", "2"], ["1", "3", "4", "5"])


def subscribed(*settings: QueueSettings) -> tuple[World, Client]:
    """A durable subscription that dead-letters, with two messages that died."""
    world = World(queues=settings or [DSUBS])
    client = world.connect()
    client.subscribe("/topic/t", id="d", persistent="true", ack="client-individual")
    for body in ("1", "2"):
        client.publish("/topic/t", body, JMSXGroupID="g")
        client.ack(client.take(), "NACK")
    return world, client


def test_dead_letters_of_a_durable_subscription_go_back_to_it() -> None:
    world, client = subscribed()
    assert bodies(world, "dead") == ["1", "2"]
    job = transfers.retry(admin_of(world), "dead", world.now)
    world.settle_down()
    assert job.answer("retried") == {"retried": 2, "held": 0}
    assert client.bodies() == ["1", "2"]
    assert list(world.broker.host.queues) == ["dead"]


@pytest.mark.parametrize("name", ["dsub:d", "/dsub/d"])
def test_a_group_can_be_moved_to_a_durable_subscription(name: str) -> None:
    world, client = subscribed()
    client.publish("/queue/q", "3", JMSXGroupID="g")
    job = transfers.move_group(admin_of(world), "q", "g", name, world.now)
    world.settle_down()
    assert (job.answer("moved"), client.bodies()) == ({"moved": 1, "held": 0}, ["3"])


def test_what_came_from_a_place_that_has_gone_for_good_stays() -> None:
    world, client = subscribed(QueueSettings(id="**", dlq="dead", nak_limit=1), DSUBS)
    client.subscribe("/temp-queue/t", id="t", ack="client-individual")
    client.publish("/temp-queue/t", "3")
    client.ack(client.take(), "NACK")
    client.publish("/queue/q", "4")
    client.subscribe("/queue/q", id="q", ack="client-individual")
    client.ack(client.take(), "NACK")
    client.lose()
    world.connect()
    world.settle_down()
    admin = admin_of(world)
    admin.delete("subscription", "d", world.now)
    job = transfers.retry(admin, "dead", world.now)
    assert job.answer("retried") == {"retried": 1, "held": 0}
    assert (bodies(world, "dead"), bodies(world, "q")) == (["1", "2", "3"], ["4"])


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("/temp-queue/x", "belongs to one connection"),
        ("temp.x", "there is no queue temp.x"),
        ("temp.default.1-1.x", "there is no queue temp.default.1-1.x"),
        ("dsub:none", "there is no durable subscription none"),
        ("/dsub/none", "there is no durable subscription none"),
        ("/topic/x", "is not the name of one queue"),
        ("a.*", "wildcards"),
        ("", "to which queue is not said"),
    ],
)
def test_no_target_is_made_that_a_send_would_not_make(name: str, refusal: str) -> None:
    world, _ = filled()
    with pytest.raises(RefusedError, match=refusal):
        transfers.move_group(admin_of(world), "q", "a", name, world.now)
    assert list(world.broker.host.queues) == ["q"]


def test_a_reason_is_a_sentence_not_a_book() -> None:
    world, _ = filled(DEAD)
    admin, reason = admin_of(world), "x" * 1025
    with pytest.raises(RefusedError, match="a reason has 1024 characters at most"):
        transfers.dead_letter_group(admin, "q", "a", world.now, reason=reason)
    with pytest.raises(RefusedError, match="a reason has 1024 characters at most"):
        transfers.dead_letter_messages(admin, "q", [1], world.now, reason=reason)
    assert bodies(world, "q") == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("way", ["deleted", "swept away"])
@pytest.mark.parametrize("what", ["group", "messages"])
def test_a_target_that_ends_meanwhile_is_made_anew(way: str, what: str) -> None:
    """It would swallow what is moved: nobody can reach it."""
    world, _ = filled(QueueSettings(id="r", auto_delete_after_s=5), QueueSettings())
    reader = world.connect()
    reader.subscribe("/queue/q", ack="client", credit="1,0")
    held = reader.take()
    admin = admin_of(world)
    world.broker.jobs.portion = 1
    if what == "group":
        job = transfers.move_group(admin, "q", "a", "r", world.now, waits=True)
    else:
        job = transfers.move_messages(admin, "q", [3, 5], "r", world.now)
    if way == "deleted":
        admin.delete("queue", "r", world.now)
    elif what == "group":
        world.wait(40)
        world.broker.go_on(world.now)
        world.wait(40)
        assert "r" not in world.broker.host.queues
    world.does_jobs = True
    reader.ack(held)
    reader.lose()
    world.settle_down()
    assert job.is_over
    there = {name: bodies(world, name) for name in ("q", "r")}
    gone = 1 if (what, way) == ("messages", "deleted") else 0  # the first went with the queue
    assert sorted(there["q"] + there["r"] + ["0"] + ["2"] * gone) == list("012345")
    assert "4" in there["r"]


def test_a_durable_subscription_that_ends_meanwhile_gets_nothing_more() -> None:
    world, client = filled()
    client.subscribe("/topic/t", id="d", persistent="true")
    client.send("UNSUBSCRIBE", {"id": "d"})
    admin = admin_of(world)
    world.broker.jobs.portion = 1
    job = transfers.move_group(admin, "q", "a", "/dsub/d", world.now)
    admin.delete("subscription", "d", world.now)
    world.does_jobs = True
    world.settle_down()
    with pytest.raises(RefusedError, match="/dsub/d has ended; 1 were moved before"):
        job.answer("moved")
    assert bodies(world, "q") == ["1", "2", "3", "4", "5"]
