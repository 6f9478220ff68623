"""What each verb does: subscriptions come and go, transactions, durable ones, destinations."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import StompSettings
from tests.protocols.stomp.support import Client, World, frame


@pytest.fixture
def world() -> World:
    return World()


# SUBSCRIBE and UNSUBSCRIBE.


def test_the_receipt_of_a_subscribe_precedes_its_first_message(world: World) -> None:
    sender, reader = world.connect(), world.connect()
    sender.publish("/queue/a", "queued")
    sender.publish("/topic/a", "retained", retain="set")
    for destination in ("/queue/a", "/topic/a"):
        reader.subscribe(destination, id=destination, receipt="r")
        assert [received.command for received in reader.inbox] == ["RECEIPT", "MESSAGE"]
        reader.inbox.clear()


def test_a_refused_subscribe_is_not_receipted(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a")
    client.subscribe("/queue/b", receipt="r")
    error = client.error()
    assert error["receipt-id"] == "r"
    assert "exists already" in error["message"]


def test_s25_queue_messages_are_load_balanced(world: World) -> None:
    readers = [world.connect(), world.connect()]
    for reader in readers:
        reader.subscribe("/queue/a")
    world.connect().publish("/queue/a", *"123456")
    assert [len(reader.bodies()) for reader in readers] == [3, 3]


def test_round_robin_false_fills_the_first_consumer_before_the_next() -> None:
    world = World(queues=(QueueSettings(round_robin=False),))
    readers = [world.connect(), world.connect()]
    for reader in readers:
        reader.subscribe("/queue/a", ack="client", credit="3,0")
    world.connect().publish("/queue/a", *"12345")
    assert [reader.bodies() for reader in readers] == [["1", "2", "3"], ["4", "5"]]


def test_s27_s28_topic_messages_go_to_everybody_who_is_there(world: World) -> None:
    sender, first, second = world.connect(), world.connect(), world.connect()
    sender.publish("/topic/a", "nobody")
    first.subscribe("/topic/a")
    second.subscribe("/topic/a")
    sender.publish("/topic/a", "all")
    assert (first.bodies(), second.bodies()) == (["all"], ["all"])


@pytest.mark.parametrize("destination", ["/nowhere/a", "/queue/", "foo://a", "/queue/a..b"])
def test_s24_an_unknown_prefix_or_empty_name_is_refused(world: World, destination: str) -> None:
    client = world.connect()
    client.subscribe(destination)
    assert destination in client.error()["message"]


def test_a_name_without_prefix_is_a_queue(world: World) -> None:
    client = world.connect()
    client.publish("a", "x")
    assert world.depth("/queue/a") == 1


def test_artemis_type_headers_decide_for_names_without_prefix(world: World) -> None:
    client = world.connect()
    client.subscribe("news", id="1", subscription_type="MULTICAST")
    client.subscribe("news", id="2", subscription_type="MULTICAST")
    client.publish("news", "all", destination_type="MULTICAST")
    client.publish("news", "one", destination_type="ANYCAST")
    assert client.bodies() == ["all", "all"]
    assert world.depth("/queue/news") == 1
    client.publish("news", "x", destination_type="BOTH")
    assert "BOTH" in client.error()["message"]


def test_unsubscribe_gives_back_what_was_not_acked_at_its_place(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    client.publish("/queue/a", *"1234")
    client.ack(client.take_all()[1])
    client.send("UNSUBSCRIBE", {"id": "s", "receipt": "r"})
    assert client.receipts() == ["r"]
    other.subscribe("/queue/a")
    assert other.bodies() == ["1", "3", "4"]


@pytest.mark.parametrize("headers", [{"id": "x"}, {"id": ""}])
def test_unsubscribe_of_something_unknown_is_refused(world: World, headers: dict[str, str]) -> None:
    client = world.connect()
    client.send("UNSUBSCRIBE", headers)
    assert "no subscription" in client.error()["message"]


def test_a_1_0_client_needs_no_ids(world: World) -> None:
    client = world.connect("1.0")
    client.send("SUBSCRIBE", {"destination": "/queue/a", "ack": "client"})
    client.publish("/queue/a", "x", "y")
    first, second = client.take_all()
    assert "subscription" not in first.headers
    client.ack(second)
    client.send("UNSUBSCRIBE", {"destination": "/queue/a"})
    assert world.depth("/queue/a") == 0
    assert not client.engine.is_closed


def test_s81_a_wildcard_also_means_destinations_made_later(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a.before", "1")
    other.subscribe("/queue/a.*", id="q")
    other.subscribe("/topic/a.*", id="t")
    client.publish("/queue/a.after", "2")
    client.publish("/topic/a.after", "3")
    assert sorted(other.bodies()) == ["1", "2", "3"]
    other.send("UNSUBSCRIBE", {"id": "q"})
    client.publish("/queue/a.later", "4")
    assert other.bodies() == []


def test_s84_one_subscription_may_mix_queues_and_topics(world: World) -> None:
    client, other = world.connect(), world.connect()
    other.subscribe("/queue/a,/topic/b")
    client.publish("/queue/a", "1")
    client.publish("/topic/b", "2")
    assert other.bodies() == ["1", "2"]


def test_s86_an_invalid_selector_is_an_error(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", selector="colour = ")
    assert client.error()["covey-code"] == "invalid"


def test_hyphens_belong_to_names_in_selectors(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", selector="hyphen-5 = 'x'")
    client.send("SEND", {"destination": "/queue/a", "hyphen-5": "x"}, "yes")
    assert client.bodies() == ["yes"]


# Durable subscriptions.


def test_s49_a_durable_subscription_on_a_queue_is_an_error(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", persistent="true")
    assert "topics" in client.error()["message"]
    assert world.broker.hosts[0].durables == {}


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_an_unknown_dsub_is_an_error(world: World, command: str) -> None:
    client = world.connect()
    client.send(command, {"destination": "/dsub/x", "id": "s", "receipt": "r"}, "")
    error = client.error()
    assert "no durable subscription x" in error["message"]
    assert error["receipt-id"] == "r"


def test_a_destroyed_dsub_refuses_a_sender_that_knew_it(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="d", persistent="true")
    client.publish("/dsub/d", "x")
    client.send("UNSUBSCRIBE", {"id": "d", "persistent": "true"})
    client.inbox.clear()
    client.publish("/dsub/d", "y")
    assert "no durable subscription d" in client.error()["message"]


def test_s52_destroying_an_unknown_durable_subscription_is_an_error(world: World) -> None:
    client = world.connect()
    client.send("UNSUBSCRIBE", {"id": "x", "persistent": "true"})
    assert client.error()["covey-code"] == "not-found"


def test_a_durable_subscription_may_listen_to_patterns_and_composites(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a.*,/topic/b", id="d", persistent="true")
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a.x", "1")
    client.publish("/topic/b", "2")
    client.publish("/topic/c", "3")
    client.subscribe("/dsub/d")
    assert client.bodies() == ["1", "2"]


def test_reattaching_loses_nothing_and_repeats_nothing(world: World) -> None:
    client = world.connect()
    client.publish("/topic/a", "retained", retain="set")
    for expected in (["retained"], [], []):
        client.subscribe("/topic/a", id="d", persistent="true")
        assert client.bodies() == expected
        client.send("UNSUBSCRIBE", {"id": "d"})


def test_an_eavesdropper_cannot_bind_a_durable_subscription_to_a_temporary_topic(
    world: World,
) -> None:
    client, thief = world.connect(), world.connect()
    client.subscribe("/temp-topic/x")
    name = f"/topic/temp.default.{client.engine.the_session.id}.x"
    thief.subscribe(name, id="d", persistent="true")
    assert thief.error()["covey-code"] == "denied"


@pytest.mark.parametrize(
    "headers",
    [
        {"durable": "true", "auto-delete": "false"},
        {"activemq.subscriptionName": "d"},
        {"durable-subscription-name": "d"},
        {"durable-subscriber-name": "d"},
    ],
)
def test_clients_of_other_brokers_make_durable_subscriptions_their_way(
    world: World, headers: dict[str, str]
) -> None:
    client = world.connect(**{"client-id": "me"})
    client.send("SUBSCRIBE", {"id": "d", "destination": "/topic/a", **headers})
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a", "x")
    client.send("SUBSCRIBE", {"id": "d", "destination": "/topic/a", **headers})
    assert client.bodies() == ["x"]
    client.send("UNSUBSCRIBE", {"id": "d", **headers})
    assert world.broker.hosts[0].durables == {}


# Browsers.


def test_s57_a_durable_subscription_can_be_browsed(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="d", persistent="true")
    client.send("UNSUBSCRIBE", {"id": "d"})
    client.publish("/topic/a", "x")
    client.subscribe("/dsub/d", browser="true")
    message, end = client.take_all()
    assert (message.body, end["browser"]) == (b"x", "end")
    assert world.depth("/dsub/d") == 1


def test_the_end_of_browse_says_what_the_queue_holds(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "one", "two", "three")
    client.subscribe("/queue/a", id="eat", credit="1,0")
    client.inbox.clear()
    client.subscribe("/queue/a", id="b", browser="true")
    end = client.take_all()[-1]
    figures = [end[name] for name in ("first-seq", "last-seq", "queue-messages", "queue-bytes")]
    assert figures == ["2", "3", "2", "8"]


def test_browsing_an_empty_queue_ends_at_once(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", browser="true", receipt="r")
    assert client.take("RECEIPT")["receipt-id"] == "r"
    assert client.take()["browser"] == "end"


@pytest.mark.parametrize("destination", ["/queue/a,/queue/b,/queue/c", "/queue/*", "/queue/z.*"])
def test_a_browser_of_several_queues_hears_one_end(world: World, destination: str) -> None:
    client = world.connect()
    client.publish("/queue/a,/queue/b", "x")
    client.subscribe(destination, browser="true")
    received = client.take_all()
    assert ["browser" in message.headers for message in received].count(True) == 1
    assert received[-1]["browser"] == "end"
    client.publish("/queue/z.later", "y")
    assert client.bodies() == []


def test_a_browser_sees_what_a_consumer_has_acquired(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "x")
    client.subscribe("/queue/a", id="c", ack="client")
    client.take()
    client.subscribe("/queue/a", id="b", browser="true", browser_end="false")
    assert client.bodies() == ["x"]


def test_a_topic_cannot_be_browsed(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", browser="true")
    assert "browsed" in client.error()["message"]


def test_a_browser_selects_and_keeps_to_its_credit(world: World) -> None:
    client = world.connect()
    for number in range(6):
        client.publish("/queue/a", str(number), odd=str(number % 2))
    client.subscribe("/queue/a", browser="true", selector="odd = 1", credit="2,0")
    first = client.take_all()
    assert [message.body for message in first] == [b"1", b"3"]
    client.ack(first[-1])
    last, end = client.take_all()
    assert (last.body, end["browser"]) == (b"5", "end")
    assert world.depth("/queue/a") == 6


# Temporary destinations.


def temporary(client: Client, kind: str = "queue", name: str = "x") -> str:
    return f"/{kind}/temp.default.{client.engine.the_session.id}.{name}"


def test_s75_temporary_destinations_end_with_their_connection(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/temp-queue/x", ack="client")
    client.subscribe("/temp-topic/x", id="t")
    other.publish(temporary(client), "1")
    client.lose()
    assert world.broker.hosts[0].queues == {}
    assert world.broker.hosts[0].topics == {}


def test_an_answer_to_somebody_gone_is_dropped_and_the_service_goes_on(world: World) -> None:
    client, service = world.connect(), world.connect()
    client.subscribe("/temp-queue/x")
    name = temporary(client)
    service.publish(name, "1")
    client.lose()
    service.publish(name, "2", receipt="r")
    service.publish(f"{name},/queue/a", "3", receipt="r2")
    assert service.receipts() == ["r", "r2"]
    assert list(world.broker.hosts[0].queues) == ["a"]


@pytest.mark.parametrize("name", ["/queue/temp.x", "/topic/temp.other.1.x", "/queue/temp.default.x"])
def test_a_name_that_only_looks_temporary_is_refused(world: World, name: str) -> None:
    client = world.connect()
    client.publish(name, "x")
    assert client.error()["covey-code"] == "not-found"


def test_s76_a_temporary_topic_reaches_each_of_its_subscriptions(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.subscribe("/temp-topic/x", id="1")
    client.subscribe("/temp-topic/x", id="2")
    other.publish(temporary(client, "topic"), "hi")
    assert client.bodies() == ["hi", "hi"]


@pytest.mark.parametrize("pattern", ["/queue/**", "/queue/*.*.*.*"])
def test_patterns_never_see_temporary_queues(world: World, pattern: str) -> None:
    client, other = world.connect(), world.connect()
    other.subscribe(pattern)
    client.publish("/temp-queue/x", "secret")
    assert other.bodies() == []
    assert world.depth(temporary(client)) == 1


@pytest.mark.parametrize("pattern", ["/queue/temp.**", "/queue/temp.default.*.x"])
def test_s78_patterns_over_temporary_names_are_denied(world: World, pattern: str) -> None:
    client = world.connect()
    client.subscribe(pattern)
    assert client.error()["covey-code"] == "denied"


def test_a_durable_subscription_may_be_called_temp_something(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", id="temp.x", persistent="true")
    client.publish("/dsub/temp.x", "y")
    assert client.bodies() == ["y"]


# Mirrored queues.


def test_what_is_sent_to_a_mirrored_queue_also_reaches_its_topic() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    client = world.connect()
    client.subscribe("/topic/m", id="t")
    client.publish("/queue/m", "x")
    assert client.bodies() == ["x"]
    assert world.depth("/queue/m") == 1


def test_what_is_sent_to_the_topic_enters_the_mirrored_queue_once_it_exists() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    client = world.connect()
    client.publish("/topic/m", "early")
    client.subscribe("/queue/m")
    client.publish("/topic/m", "later")
    assert client.bodies() == ["later"]


def test_a_mirrored_queue_takes_each_message_once() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True),))
    world.connect().publish("/queue/m", "x")
    assert world.depth("/queue/m") == 1


def test_a_mirrored_topic_fills_its_queue_one_way() -> None:
    world = World(topics=(TopicSettings(id="m", mirrored=True),))
    client = world.connect()
    client.subscribe("/queue/m", id="q")
    client.subscribe("/topic/m", id="t")
    client.publish("/topic/m", "both")
    client.publish("/queue/m", "queue")
    received = client.take_all()
    assert sorted((one["subscription"], one.body) for one in received) == [
        ("q", b"both"),
        ("q", b"queue"),
        ("t", b"both"),
    ]


def test_a_full_mirrored_queue_blocks_senders_to_its_topic_too() -> None:
    world = World(queues=(QueueSettings(id="m", mirrored=True, quota_messages=1),))
    client = world.connect()
    client.publish("/queue/m", "1")
    client.publish("/topic/m", "2")
    assert not client.engine.reading
    world.connect().subscribe("/queue/m")
    assert client.engine.reading


# Transactions.


def test_nothing_of_a_transaction_is_seen_before_its_commit(world: World) -> None:
    client = world.connect()
    client.send("BEGIN", {"transaction": "t", "receipt": "r1"})
    client.publish("/queue/a", "x", transaction="t", receipt="r2")
    assert client.receipts() == ["r1", "r2"]
    assert world.depth("/queue/a") == 0
    client.send("COMMIT", {"transaction": "t", "receipt": "r3"})
    assert client.receipts() == ["r3"]
    assert world.depth("/queue/a") == 1


def test_abort_undoes_everything(world: World) -> None:
    client = world.connect()
    client.publish("/queue/in", "x")
    client.subscribe("/queue/in", ack="client-individual")
    message = client.take()
    client.ack(message, transaction="t")
    client.publish("/queue/out", "y", transaction="t")
    client.send("ABORT", {"transaction": "t", "receipt": "r"})
    assert client.receipts() == ["r"]
    assert (world.depth("/queue/in"), world.depth("/queue/out")) == (1, 0)
    client.ack(message)
    assert world.depth("/queue/in") == 0


@pytest.mark.parametrize("verb", ["COMMIT", "ABORT"])
def test_ending_an_unknown_transaction_is_an_error(world: World, verb: str) -> None:
    client = world.connect()
    client.send(verb, {"transaction": "t"})
    assert "no transaction t" in client.error()["message"]


def test_beginning_a_running_transaction_is_an_error(world: World) -> None:
    client = world.connect()
    client.send("BEGIN", {"transaction": "t"})
    client.send("BEGIN", {"transaction": "t"})
    assert "running already" in client.error()["message"]


def test_a_lost_connection_aborts_its_transactions(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/in", "x")
    client.subscribe("/queue/in", ack="client")
    client.ack(client.take(), transaction="t")
    client.publish("/queue/out", "y", transaction="t")
    client.lose()
    other.subscribe("/queue/in,/queue/out")
    assert other.bodies() == ["x"]


def test_what_was_acked_in_an_open_transaction_stays_with_it_over_unsubscribe(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a", "1", "2")
    client.subscribe("/queue/a", ack="client-individual")
    one, _ = client.take_all()
    client.ack(one, transaction="t")
    client.send("UNSUBSCRIBE", {"id": "s"})
    other.subscribe("/queue/a")
    assert other.bodies() == ["2"]
    client.send("COMMIT", {"transaction": "t"})
    assert world.depth("/queue/a") == 0


def test_after_unsubscribe_an_abort_gives_the_messages_back(world: World) -> None:
    client, other = world.connect(), world.connect()
    client.publish("/queue/a", "1")
    client.subscribe("/queue/a", ack="client-individual")
    client.ack(client.take(), transaction="t")
    client.send("UNSUBSCRIBE", {"id": "s"})
    other.subscribe("/queue/a")
    client.send("ABORT", {"transaction": "t"})
    assert other.bodies() == ["1"]


def small(**options: object) -> World:
    return World(queues=(QueueSettings.model_validate({"id": "small", **options}),))


def test_a_commit_waits_for_room_as_a_whole() -> None:
    world = small(quota_messages=2)
    client, other = world.connect(), world.connect()
    other.publish("/queue/small", "0")
    for body in ("1", "2"):
        client.publish("/queue/small", body, transaction="t")
    client.publish("/queue/else", "3", transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.receipts() == []
    assert (world.depth("/queue/small"), world.depth("/queue/else")) == (1, 0)
    other.subscribe("/queue/small", ack="client")
    other.ack(other.take())
    assert client.receipts() == ["r"]
    assert (world.depth("/queue/small"), world.depth("/queue/else")) == (2, 1)


def test_a_transaction_that_can_never_fit_is_refused() -> None:
    world = small(quota_messages=1)
    client = world.connect()
    for body in ("1", "2"):
        client.publish("/queue/small", body, transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.error()["receipt-id"] == "r"
    assert world.depth("/queue/small") == 0


def test_a_connection_lost_while_its_commit_waits_gives_its_acks_back() -> None:
    world = small(quota_messages=1)
    client, other = world.connect(), world.connect()
    client.publish("/queue/in", "x")
    client.publish("/queue/small", "full")
    client.subscribe("/queue/in", ack="client")
    client.ack(client.take(), transaction="t")
    client.publish("/queue/small", "more", transaction="t")
    client.send("COMMIT", {"transaction": "t"})
    assert not client.engine.reading
    client.lose()
    other.subscribe("/queue/in,/queue/small")
    assert sorted(other.bodies()) == ["full", "x"]


def test_a_waiting_send_that_is_refused_later_ends_its_own_connection_only() -> None:
    world = small(quota_messages=1)
    client, other, third = world.connect(), world.connect(), world.connect()
    other.subscribe("/topic/a", id="d", persistent="true", credit="0,0")
    client.publish("/queue/small", "1")
    client.publish("/queue/small,/dsub/d", "2", receipt="r")
    assert not client.engine.reading
    other.send("UNSUBSCRIBE", {"id": "d", "persistent": "true"})
    third.subscribe("/queue/small")
    assert third.bodies() == ["1"]
    assert not third.engine.is_closed
    assert "durable subscription d" in client.error()["message"]


def test_limits_of_a_transaction_are_named() -> None:
    world = World(limits={"tx_operations_max": 2})
    client = world.connect()
    client.publish("/queue/a", "1", "2", "3", transaction="t")
    assert "tx_operations_max" in client.error()["message"]


# Composites and quotas.


def test_s83_a_composite_is_all_or_nothing() -> None:
    world = small(quota_messages=1, full_policy="reject")
    client, other = world.connect(), world.connect()
    other.publish("/queue/small", "0")
    client.publish("/queue/a,/queue/small,/topic/t", "1", receipt="r")
    assert client.error()["covey-code"] == "full"
    assert world.depth("/queue/a") == 0


def test_a_refused_composite_drops_nothing_elsewhere() -> None:
    world = World(
        queues=(
            QueueSettings(id="ring", quota_messages=1, full_policy="drop head"),
            QueueSettings(id="full", quota_messages=1, full_policy="reject"),
        )
    )
    client, other = world.connect(), world.connect()
    other.publish("/queue/ring,/queue/full", "0")
    client.publish("/queue/ring,/queue/full", "1")
    client.error()
    other.subscribe("/queue/ring")
    assert other.bodies() == ["0"]


def test_drop_head_drop_tail_and_reject() -> None:
    for policy, kept in (("drop head", ["2", "3"]), ("drop tail", ["1", "2"])):
        world = small(quota_messages=2, full_policy=policy)
        client = world.connect()
        client.publish("/queue/small", *"123", receipt="r")
        assert client.receipts() == ["r", "r", "r"]
        client.subscribe("/queue/small")
        assert client.bodies() == kept
    world = small(quota=3, full_policy="reject")
    client = world.connect()
    client.publish("/queue/small", "1", "2", "34")
    assert "quota is 3 bytes" in client.error()["message"]


def test_drop_head_never_drops_what_a_consumer_holds() -> None:
    world = small(quota_messages=2, full_policy="drop head")
    client, other = world.connect(), world.connect()
    client.subscribe("/queue/small", ack="client", credit="1,0")
    client.publish("/queue/small", *"123")
    message = client.take()
    assert (message.body, world.depth("/queue/small")) == (b"1", 2)
    client.ack(message)
    assert client.bodies() == ["3"]
    other.publish("/queue/small", "4")
    client.send("NONSENSE")
    other.subscribe("/queue/small")
    assert other.bodies() == ["3", "4"]


def test_producers_wait_in_the_order_they_came() -> None:
    world = small(quota=10)
    first, second, reader = world.connect(), world.connect(), world.connect()
    first.publish("/queue/small", "x" * 8)
    first.publish("/queue/small", "y" * 8)
    second.publish("/queue/small", "z")  # would fit, but somebody waits already
    assert not second.engine.reading
    reader.subscribe("/queue/small")
    assert reader.bodies() == ["x" * 8, "y" * 8, "z"]


def test_a_producer_that_waits_for_a_deleted_queue_goes_on() -> None:
    world = small(quota_messages=1)
    client = world.connect()
    client.publish("/queue/small", "1", "2", receipt="r")
    world.broker.hosts[0].delete_queue("small", "gone")
    world.settle_down()
    assert client.receipts() == ["r", "r"]
    assert world.depth("/queue/small") == 1


def test_receipts_leave_in_the_order_of_their_frames(world: World) -> None:
    client = world.connect()
    client.feed(
        frame("SEND", {"destination": "/queue/a", "receipt": "1"}, "x")
        + frame("BEGIN", {"transaction": "t", "receipt": "2"})
        + frame("SEND", {"destination": "/queue/a", "transaction": "t", "receipt": "3"}, "x")
        + frame("COMMIT", {"transaction": "t", "receipt": "4"})
        + frame("SUBSCRIBE", {"id": "s", "destination": "/queue/b", "receipt": "5"})
        + frame("UNSUBSCRIBE", {"id": "s", "receipt": "6"})
        + frame("BEGIN", {"transaction": "t", "receipt": "7"})
        + frame("ABORT", {"transaction": "t", "receipt": "8"})
        + frame("DISCONNECT", {"receipt": "9"})
    )
    assert client.receipts() == list("123456789")


def test_other_spellings_of_destinations_follow_the_connector() -> None:
    settings = StompSettings(
        queue_prefix="jms.queue.",
        topic_prefix="jms.topic.",
        path_separator="/",
        destination_separator=";",
        any_child_wildcard="+",
        any_descendant_wildcard="++",
        regex_wildcard_start="<",
        regex_wildcard_end=">",
    )
    world = World(stomp=settings)
    client = world.connect()
    client.subscribe("jms.topic.a/+/c;jms.queue.q;jms.topic.n/<[0-9]+>;jms.topic.z/++")
    for destination in ("topic.a/b/c", "queue.q", "topic.n/12", "topic.n/x", "topic.z/1/2"):
        client.publish(f"jms.{destination}", destination)
    assert client.bodies() == ["topic.a/b/c", "queue.q", "topic.n/12", "topic.z/1/2"]
