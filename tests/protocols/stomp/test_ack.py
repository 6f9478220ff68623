"""ACK and NACK: modes, versions, the credit algebra, transactions, dead letters."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from tests.protocols.stomp.support import Client, Frame, World

VERSIONS = ["1.0", "1.1", "1.2"]


@pytest.fixture
def world() -> World:
    return World()


def fill(world: World, *bodies: str, name: str = "/queue/a") -> None:
    world.connect().publish(name, *bodies)


def texts(frames: list[Frame]) -> list[str]:
    return [one.body.decode() for one in frames]


# Modes.


@pytest.mark.parametrize("version", VERSIONS)
def test_s36_client_mode_acks_everything_before_too(world: World, version: str) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client")
    fill(world, *"1234")
    client.ack(client.take_all()[2])
    assert world.depth("/queue/a") == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_s36_client_individual_mode_acks_one(world: World, version: str) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, *"1234")
    client.ack(client.take_all()[2])
    assert world.depth("/queue/a") == 3


def test_s36_auto_mode_needs_no_ack(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a")
    fill(world, "1")
    assert "ack" not in client.take().headers
    assert world.depth("/queue/a") == 0


def test_a_cumulative_ack_covers_its_own_subscription_only(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", id="a", ack="client")
    client.subscribe("/queue/b", id="b", ack="client")
    fill(world, "1", name="/queue/a")
    fill(world, "2", name="/queue/b")
    client.ack(client.take_all()[1])
    assert (world.depth("/queue/a"), world.depth("/queue/b")) == (1, 0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_an_unknown_message_is_an_error_and_acks_nothing(
    world: World, version: str, mode: str
) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", ack=mode)
    fill(world, "1")
    client.take()
    client.send("ACK", {"id": "77", "message-id": "77", "subscription": "s", "receipt": "r"})
    error = client.error()
    assert (error["covey-code"], error["receipt-id"]) == ("not-found", "r")
    assert world.depth("/queue/a") == 1


@pytest.mark.parametrize("text", ["x", "-1", "1" * 40, "\u0664"])
def test_ids_that_are_no_numbers_are_refused(world: World, text: str) -> None:
    client = world.connect()
    client.send("ACK", {"id": text})
    assert client.error()["covey-code"] == "not-found"


def test_a_second_ack_of_the_same_message_is_an_error(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    message = client.take()
    client.ack(message)
    client.ack(message)
    assert client.error()["covey-code"] == "not-found"


@pytest.mark.parametrize("verb", ["ACK", "NACK"])
def test_acks_have_receipts(world: World, verb: str) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client", credit="1,0")
    fill(world, "1")
    client.ack(client.take(), verb, receipt="r")
    assert client.take("RECEIPT")["receipt-id"] == "r"


def test_nack_is_unknown_to_1_0(world: World) -> None:
    client = world.connect("1.0")
    client.send("NACK", {"message-id": "1"})
    assert "NACK" in client.error()["message"]


# Credit: S40-S48.


def test_s40_either_window_lets_messages_through(world: World) -> None:
    fill(world, *["12345"] * 10)
    for number, (credit, expected) in enumerate(
        [("5,0", 5), ("0,20", 4), ("1,1", 1), ("2,6", 2), ("0,0", 0), ("1,11", 3)]
    ):
        client = world.connect()
        client.subscribe("/queue/a", id=str(number), ack="client", credit=credit)
        assert len(client.bodies()) == expected
        client.lose()


def test_s41_a_count_alone_gets_the_sockets_buffer_as_size(world: World) -> None:
    client = world.connect()
    client.engine.socket_buffer = 12
    client.subscribe("/queue/a", ack="client", credit="1")
    fill(world, *["12345"] * 10)
    assert len(client.bodies()) == 3


def test_s42_no_header_means_655360_messages_and_bytes(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client")
    window = client.session.core.subscriptions["s"].window
    assert (window.count, window.size) == (655360, 655360)


def test_s43_s44_deliveries_lower_both_windows_by_the_body_and_acks_raise_them(
    world: World,
) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client", credit="10,100")
    window = client.session.core.subscriptions["s"].window
    fill(world, "12345", "123", "")
    received = client.take_all()
    assert (window.count, window.size) == (7, 92)
    client.ack(received[1])
    assert (window.count, window.size) == (9, 100)
    client.ack(received[2], "NACK")
    client.take()
    assert (window.count, window.size) == (9, 100)


@pytest.mark.parametrize("version", VERSIONS)
def test_s45_an_ack_in_auto_mode_is_pure_credit(world: World, version: str) -> None:
    client = world.connect(version)
    client.subscribe("/queue/a", credit="2,0")
    fill(world, *"123456")
    assert world.depth("/queue/a") == 4
    received = client.take_all()
    client.ack(received[1])
    assert client.bodies() == ["3", "4"]
    assert world.depth("/queue/a") == 2


def test_an_ack_in_auto_mode_without_credit_header_does_no_harm(world: World) -> None:
    client = world.connect("1.1")
    client.subscribe("/queue/a")
    fill(world, "1", "2")
    for message in client.take_all():
        client.ack(message, receipt="r")
    assert client.receipts() == ["r", "r"]


def test_s46_a_transactional_ack_raises_credit_without_consuming(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    fill(world, *"123")
    client.ack(client.take(), transaction="t")
    client.ack(client.take(), transaction="t")
    assert client.bodies() == ["3"]
    assert world.depth("/queue/a") == 3
    client.send("COMMIT", {"transaction": "t"})
    assert world.depth("/queue/a") == 1


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_s47_after_an_abort_the_same_ack_does_not_raise_credit_again(
    world: World, mode: str
) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack=mode, credit="1,0")
    fill(world, *"123")
    one = client.take()
    client.ack(one, transaction="t")
    two = client.take()
    client.send("ABORT", {"transaction": "t"})
    client.ack(one)
    assert client.bodies() == []
    client.ack(two)
    assert client.bodies() == ["3"]


def test_an_ack_that_only_means_credit_begins_its_transaction_too(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", credit="1,0")
    fill(world, "1")
    client.ack(client.take(), transaction="t")
    client.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert client.receipts() == ["r"]


def test_an_ack_already_in_a_transaction_cannot_be_repeated(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    message = client.take()
    client.ack(message, transaction="t")
    client.ack(message)
    assert client.error()["covey-code"] == "not-found"


def test_s48_with_auto_false_only_the_ack_s_credit_header_raises(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="1,0,false")
    fill(world, *"1234567")
    message = client.take()
    client.ack(message)
    assert client.bodies() == []
    client.subscribe("/queue/b", id="b", ack="client-individual", credit="1,0,false")
    fill(world, *"12345", name="/queue/b")
    client.ack(client.take(), credit="2,1")
    assert client.bodies() == ["2", "3"]


def test_s48_a_credit_header_adds_to_what_an_ack_gives(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    fill(world, *"12345")
    client.ack(client.take(), credit="2")
    assert client.bodies() == ["2", "3", "4"]


@pytest.mark.parametrize("credit", ["x", "-1", "1,2,3", ""])
def test_bad_credit_on_an_ack_is_an_error_and_acks_nothing(world: World, credit: str) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client")
    fill(world, "1")
    client.ack(client.take(), credit=credit)
    assert "credit" in client.error()["message"]
    assert world.depth("/queue/a") == 1


# NACK.


def test_s90_nack_returns_the_message_at_its_place_and_counts(world: World) -> None:
    client = world.connect("1.1")
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    fill(world, "1", "2")
    client.ack(client.take(), "NACK")
    again = client.take()
    assert (again.body, again["redelivered"]) == (b"1", "true")


def dying(**options: object) -> World:
    settings = {"dlq": "dlq.*", **options}
    return World(queues=(QueueSettings.model_validate({"id": "a", **settings}),))


def nack_all(client: Client, **headers: str) -> int:
    """Refuse every message that comes; return how often one came."""
    count = 0
    while client.inbox:
        client.ack(client.take(), "NACK", **headers)
        count += 1
    return count


def test_s90_after_nak_limit_failures_a_message_goes_to_the_dead_letter_queue() -> None:
    world = dying(nak_limit=3)
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="1,0")
    fill(world, "1")
    assert nack_all(client) == 3
    assert (world.depth("/queue/a"), world.depth("/queue/dlq.a")) == (0, 1)
    client.subscribe("/queue/dlq.a", id="d")
    dead = client.take()
    assert (dead.body, "redelivered" in dead.headers) == (b"1", False)


def test_without_a_dead_letter_queue_a_poison_message_is_dropped() -> None:
    world = World(queues=(QueueSettings(nak_limit=1),))
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    assert nack_all(client) == 1
    assert world.depth("/queue/a") == 0


@pytest.mark.parametrize("word", ["false", "False"])
def test_requeue_false_is_a_dead_letter_at_once(word: str) -> None:
    world = dying()
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    assert nack_all(client, requeue=word) == 1
    assert world.depth("/queue/dlq.a") == 1


def test_expired_messages_go_to_the_dead_letter_queue_if_asked_and_never_expire_there() -> None:
    world = dying(dlq_expired=True)
    client = world.connect()
    client.publish("/queue/a", "1", ttl="1000")
    world.wait(2.1)
    assert (world.depth("/queue/a"), world.depth("/queue/dlq.a")) == (0, 1)
    world.wait(100)
    client.subscribe("/queue/dlq.a")
    assert "expires" not in client.take().headers


def test_expired_messages_are_dropped_by_default() -> None:
    world = dying()
    world.connect().publish("/queue/a", "1", ttl="1000")
    world.wait(2.1)
    assert (world.depth("/queue/a"), world.depth("/queue/dlq.a")) == (0, 0)


def test_a_released_message_goes_to_its_place_and_no_try_is_counted() -> None:
    world = World(queues=[QueueSettings(id="a", nak_limit=1, dlq="dead")])
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="2,0")
    fill(world, "1", "2", "3")
    first, second = client.take_all()
    client.ack(second, "NACK", covey_release="true")
    client.ack(first, "NACK", covey_release="true")
    again = client.take_all()
    assert [message.body for message in again] == [b"2", b"1"]  # each as it came back
    assert ["redelivered" in message.headers for message in again] == [False, False]
    assert world.depth("/queue/dead") == 0


def test_a_message_cannot_be_released_and_dead_lettered_at_once(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    client.ack(client.take(), "NACK", covey_release="true", requeue="false")
    assert "two different wishes" in client.error()["message"]


def test_a_cumulative_nack_covers_everything_before_too(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client")
    fill(world, *"123")
    received = client.take_all()
    client.ack(received[1], "NACK")
    again = client.take_all()
    assert texts(again) == ["1", "2"]
    assert {one["redelivered"] for one in again} == {"true"}


def test_a_transactional_nack_happens_at_the_commit(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, "1")
    client.ack(client.take(), "NACK", transaction="t")
    assert client.inbox == []
    client.send("COMMIT", {"transaction": "t"})
    assert client.bodies() == ["1"]


def test_a_nack_on_a_topic_brings_the_message_again(world: World) -> None:
    client = world.connect()
    client.subscribe("/topic/a", ack="client-individual", credit="1,0")
    fill(world, "1", "2", name="/topic/a")
    client.ack(client.take(), "NACK")
    again = client.take()
    assert (again.body, again["redelivered"]) == (b"1", "true")
    client.ack(again)
    assert client.bodies() == ["2"]


def test_rows_of_plain_acks_are_settled_like_single_ones(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual", credit="3,0")
    fill(world, *"123456789")
    acks = b"".join(b"ACK\nid:%s\n\n\0\n" % one["ack"].encode() for one in client.take_all())
    client.feed(acks)
    assert client.bodies() == ["4", "5", "6"]
    assert world.depth("/queue/a") == 6


def test_a_row_of_plain_acks_up_to_an_unknown_one_is_settled(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", ack="client-individual")
    fill(world, *"123")
    ids = [one["ack"].encode() for one in client.take_all()]
    client.feed(b"".join(b"ACK\nid:%s\n\n\0" % tag for tag in [*ids[:2], b"99", ids[2]]))
    client.take("ERROR")
    assert world.depth("/queue/a") == 1


def test_a_row_of_plain_acks_may_be_of_several_subscriptions(world: World) -> None:
    client = world.connect()
    client.subscribe("/queue/a", id="one", ack="client-individual", credit="1,0")
    client.subscribe("/queue/b", id="two", ack="client-individual", credit="1,0")
    fill(world, *"13", name="/queue/a")
    fill(world, *"24", name="/queue/b")
    acks = b"".join(b"ACK\nid:%s\n\n\0" % one["ack"].encode() for one in client.take_all())
    client.feed(acks)
    assert sorted(client.bodies()) == ["3", "4"]
    assert (world.depth("/queue/a"), world.depth("/queue/b")) == (1, 1)


@pytest.mark.parametrize("command", ["ACK", "NACK"])
def test_very_many_are_settled_in_portions_and_the_next_frame_waits(command: str) -> None:
    world = World()
    client = world.connect()
    client.publish("/queue/a", *[f"{number}" for number in range(100)])
    client.subscribe("/queue/a", ack="client")
    last = client.take_all()[-1]
    world.broker.jobs.allow(10, 5.0, 1000)
    client.ack(last, command)
    client.publish("/queue/b", "behind")
    assert (world.depth("/queue/b"), client.engine.reading) == (0, False)
    world.does_jobs = True
    world.settle_down()
    assert world.depth("/queue/b") == 1
    counters = world.queue("/queue/a").counters
    assert (counters.acked, counters.returned) == ((100, 0) if command == "ACK" else (0, 100))
