"""One connection over time: heart-beats, how it waits without losing anything, and its turns."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings, TopicSettings
from covey.config.settings import StompSettings
from covey.core.jobs.turn_length import LOOK_EVERY
from tests.doubles import SlowWatch
from tests.protocols.stomp.support import Client, World, frame

LOGIN = {"login": "admin", "passcode": "password"}
WIDE = ",".join(f"/queue/q.{number}" for number in range(LOOK_EVERY))


# Heart-beats.


def test_s89_connected_answers_the_clients_own_numbers_but_not_below_100_ms() -> None:
    world = World()
    for header, answer in (("0,0", "100,10000"), ("5000,20", "100,5000"), ("50,900", "900,100")):
        client = world.stranger()
        client.send(
            "CONNECT",
            {"accept-version": "1.2", "host": "localhost", "heart-beat": header, **LOGIN},
        )
        assert client.take("CONNECTED")["heart-beat"] == answer


def test_a_beat_is_sent_after_the_agreed_silence_and_not_while_data_flows() -> None:
    world = World()
    client = world.connect(**{"heart-beat": "0,1000"})
    client.subscribe("/queue/a")
    client.raw = b""
    world.wait(0.9)
    client.publish("/queue/a", "x")
    world.wait(0.9)
    assert not client.raw.endswith(b"\0\n\n")
    world.wait(0.2)
    assert client.raw.endswith(b"\0\n\n")


def test_a_peer_that_does_not_read_is_sent_no_beat_on_top_of_what_waits_for_it() -> None:
    world = World()
    client = world.connect(**{"heart-beat": "0,1000"})
    client.reads = False
    for _ in range(3):
        world.wait(1.0)
        assert client.deadline == world.now + 1.0  # and not at once, again and again
    assert client.engine.outgoing() == b"\n"


def test_a_silent_peer_is_given_up_after_one_and_a_half_intervals() -> None:
    world = World()
    client = world.connect(**{"heart-beat": "1000,0"})
    world.wait(1.4)
    client.feed(b"\n")
    world.wait(1.4)
    assert not client.engine.is_closed
    world.wait(0.2)
    assert "stale" in client.error()["message"]


@pytest.mark.parametrize("part", [b"x" * 10, b"\n"])
def test_any_part_of_a_frame_is_a_sign_of_life(part: bytes) -> None:
    world = World()
    client = world.connect(**{"heart-beat": "1000,0"})
    client.feed(b"SEND\ndestination:/queue/a\nreceipt:r\n\n")
    for _ in range(10):
        world.wait(1.4)
        client.feed(part)
    client.feed(b"\0")
    assert client.receipts() == ["r"]


def test_what_a_transport_still_keeps_is_a_sign_of_life() -> None:
    world = World()
    client = world.connect(**{"heart-beat": "1000,0"})
    for _ in range(10):
        world.wait(1.4)
        client.engine.sign_of_life(world.now)
    assert not client.engine.is_closed
    world.wait(1.6)
    assert "stale" in client.error()["message"]


def test_a_sign_of_life_is_no_login() -> None:
    world = World()
    stranger = world.stranger()
    for _ in range(10):
        stranger.engine.sign_of_life(world.now)
        world.wait(1.1)
    assert stranger.error()["message"] == "no CONNECT frame in time"


def test_what_a_silent_peer_held_goes_to_others_at_once() -> None:
    world = World()
    client, other = world.connect(**{"heart-beat": "1000,0"}), world.connect()
    client.subscribe("/queue/a", ack="client")
    client.publish("/queue/a", "x")
    other.subscribe("/queue/a")
    world.broker.wake = lambda: world.broker.run(world.now)
    client.engine.tick(world.now + 2.0)
    assert other.engine.outgoing().endswith(b"\n\nx\0\n")


def test_a_blocked_producer_is_not_blamed_for_beats_we_do_not_read() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=1),))
    client, other = world.connect(**{"heart-beat": "1000,0"}), world.connect()
    client.publish("/queue/small", "one", "two")
    for _ in range(10):
        client.unread += b"\n"
        world.wait(1.0)
    assert not client.engine.is_closed
    other.subscribe("/queue/small")
    assert other.bodies() == ["one", "two"]
    world.wait(1.4)
    assert not client.engine.is_closed


# Waiting.


def test_a_full_queue_blocks_the_producer_and_nothing_is_lost_or_reordered() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=2),))
    client, other = world.connect(), world.connect()
    for number in range(6):
        client.publish("/queue/small", str(number), receipt=f"r{number}")
    assert client.receipts() == ["r0", "r1"]
    assert not client.engine.reading
    other.subscribe("/queue/small", ack="client-individual", credit="1,0")
    received = []
    while other.inbox:
        message = other.take()
        received.append(message.body.decode())
        other.ack(message)
    assert received == list("012345")
    assert client.receipts() == ["r2", "r3", "r4", "r5"]
    assert client.engine.reading


def test_the_receipt_of_disconnect_waits_until_every_send_was_taken() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=1),))
    client, other = world.connect(), world.connect()
    client.publish("/queue/small", "one", "two")
    client.send("DISCONNECT", {"receipt": "bye"})
    assert client.receipts() == []
    other.subscribe("/queue/small")
    assert other.bodies() == ["one", "two"]
    assert client.receipts() == ["bye"]
    assert client.engine.is_closed


def test_disconnect_ends_the_connection_and_later_frames_are_ignored() -> None:
    world = World()
    client = world.connect()
    client.feed(frame("DISCONNECT", {"receipt": "bye"}) + frame("SEND", {"destination": "a"}, "x"))
    assert client.receipts() == ["bye"]
    assert world.depth("/queue/a") == 0


def test_a_peer_that_reads_nothing_is_not_read_either() -> None:
    world = World(stomp=StompSettings(buffer_size=1000))
    client = world.connect()
    client.reads = False
    for number in range(200):
        client.publish("/queue/a", "x", receipt=str(number))
    assert not client.engine.reading
    assert world.depth("/queue/a") < 120
    client.reads = True
    world.settle_down()
    assert client.receipts() == [str(number) for number in range(200)]
    assert world.depth("/queue/a") == 200


def test_s2_a_full_outbox_stops_deliveries_until_it_is_read() -> None:
    world = World(stomp=StompSettings(buffer_size=2000))
    reader, sender = world.connect(), world.connect()
    reader.subscribe("/queue/a")
    reader.reads = False
    sender.publish("/queue/a", *["x" * 100] * 50)
    assert world.depth("/queue/a") > 30
    reader.reads = True
    world.settle_down()
    assert len(reader.bodies()) == 50
    assert world.depth("/queue/a") == 0


def test_a_worker_does_not_wait_for_room_that_only_its_own_ack_can_make() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=2),))
    worker = world.connect()
    worker.publish("/queue/small", "1", "2")
    worker.subscribe("/queue/small", ack="client-individual", credit="2,0")
    held = [worker.take(), worker.take()]
    worker.publish("/queue/small", "3", "4")
    assert worker.engine.reading
    assert world.depth("/queue/small") == 4
    for message in held:
        worker.ack(message)
    assert worker.bodies() == ["3", "4"]


def test_a_worker_in_a_transaction_does_not_either() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=1),))
    worker = world.connect()
    worker.publish("/queue/small", "1")
    worker.subscribe("/queue/small", ack="client-individual", credit="1,0")
    worker.send("ACK", {"id": worker.take()["ack"], "transaction": "t"})
    worker.publish("/queue/small", "2", transaction="t")
    worker.send("COMMIT", {"transaction": "t", "receipt": "done"})
    assert worker.take("RECEIPT")["receipt-id"] == "done"
    assert worker.bodies() == ["2"]


def test_a_worker_that_sends_more_than_it_holds_waits_for_somebody_else() -> None:
    world = World(queues=(QueueSettings(id="small", quota_messages=2),))
    worker, other = world.connect(), world.connect()
    worker.publish("/queue/small", "1", "2")
    worker.subscribe("/queue/small", ack="client-individual", credit="1,0")
    held = worker.take()
    worker.publish("/queue/small", "3", "4")
    worker.ack(held)
    assert not worker.engine.reading
    assert world.depth("/queue/small") == 3
    other.subscribe("/queue/small")
    assert worker.engine.reading
    assert world.depth("/queue/small") == 0


def test_block_policy_makes_the_producer_wait_for_a_slow_subscriber_of_its_topic_only() -> None:
    world = World(stomp=StompSettings(buffer_size=4000))
    slow, sender, bystander = world.connect(), world.connect(), world.connect()
    slow.subscribe("/topic/a", ack="client", credit="0,0")
    sender.publish("/topic/a", *["x" * 100] * 50)
    assert not sender.engine.reading
    bystander.publish("/topic/b", "x", receipt="r")
    assert bystander.receipts() == ["r"]
    assert bystander.engine.reading
    slow.lose()
    assert sender.engine.reading


def test_queue_policy_gives_a_slow_subscriber_more_room() -> None:
    world = World(
        stomp=StompSettings(buffer_size=4000),
        topics=(TopicSettings(slow_consumer_policy="queue"),),
    )
    slow, sender = world.connect(), world.connect()
    slow.subscribe("/topic/a", credit="10,0", id="s")
    sender.publish("/topic/a", *["x" * 100] * 60)
    assert sender.engine.reading
    received = slow.take_all()
    for _ in range(5):
        slow.ack(received[-1])
        received += slow.take_all()
    assert len(received) == 60


def test_bytes_may_come_one_by_one() -> None:
    world = World()
    client = world.stranger()
    stream = (
        frame("CONNECT", {"accept-version": "1.2", "host": "localhost", **LOGIN})
        + b"\n\r\n"
        + frame("SUBSCRIBE", {"id": "s", "destination": "/queue/a", "receipt": "r"})
        + b"SEND\r\ndestination:/queue/a\r\n\r\nhello\0\n"
    )
    for at in range(len(stream)):
        client.feed(stream[at : at + 1])
    client.take("CONNECTED")
    assert client.take("RECEIPT")["receipt-id"] == "r"
    assert client.bodies() == ["hello"]


def test_a_client_that_sends_all_it_has_before_it_reads_is_not_stuck() -> None:
    """A single-threaded script subscribes, sends its thousand messages, and only then reads."""
    world = World(stomp=StompSettings(buffer_size=1000))
    client = world.connect()
    client.subscribe("/queue/a")
    client.reads = False
    for number in range(100):
        client.publish("/queue/a", f"message {number}")
    assert client.engine.reading
    client.reads = True
    world.settle_down()
    assert [frame.body for frame in client.inbox] == [
        f"message {number}".encode() for number in range(100)
    ]


def test_the_first_persistent_message_of_a_connection_waits_for_an_alarm_to_end() -> None:
    world = World()
    world.broker.commits.pressed("the disk is full")
    client = world.connect()
    client.publish("/queue/a", "x", persistent="true", receipt="r")
    assert client.inbox == [] and world.depth("/queue/a") == 0
    client.publish("/queue/a", "y", receipt="s")  # stays in the stream behind it
    world.broker.commits.pressed("")
    world.wait(0.1)
    assert [client.take("RECEIPT")["receipt-id"] for _ in range(2)] == ["r", "s"]


def test_who_would_rather_fail_than_wait_is_told_why_and_its_message_is_not_taken() -> None:
    world = World()
    world.broker.commits.pressed("the disk is full")
    client = world.connect(**{"covey-wait-ms": "2000"})
    client.publish("/queue/a", "x", persistent="true", receipt="r")
    world.wait(1.9)
    assert client.inbox == []
    world.wait(0.2)
    assert client.error()["message"] == "the message was not taken in time: the disk is full"
    world.broker.commits.pressed("")
    world.wait(0.1)
    assert world.depth("/queue/a") == 0


def test_a_patience_that_is_no_number_is_refused() -> None:
    world = World()
    client = world.stranger()
    headers = {"accept-version": "1.2", "host": "localhost", **LOGIN}
    client.send("CONNECT", headers | {"covey-wait-ms": "-1"})
    assert "covey-wait-ms:-1" in client.error()["message"]
    assert not world.broker.sessions  # one that was opened already would never be dropped


# Turns: frames of one read that take long.


def sends(count: int, destination: str) -> bytes:
    """Write SENDs with numbers, each with a receipt."""
    return b"".join(
        frame("SEND", {"destination": destination, "receipt": f"r{number}"}, f"{number}")
        for number in range(count)
    )


def slow_world() -> World:
    return World(stopwatch=SlowWatch().look)


def read(client: Client, data: bytes) -> None:
    """Let the broker read bytes, and nothing else happen."""
    client.engine.receive(data, client.world.now)


def arrived(world: World, name: str) -> int:
    return world.broker.host.queues[name].counters.enqueued


def test_a_turn_ends_after_a_slow_frame_and_the_rest_comes_in_other_turns() -> None:
    world = slow_world()
    client, other = world.connect(), world.connect()
    read(client, sends(5, WIDE))
    assert arrived(world, "q.0") == 1
    assert not client.engine.reading
    read(other, frame("SEND", {"destination": "/queue/q.0"}, "other"))
    assert arrived(world, "q.0") == 2
    world.settle_down()
    assert client.engine.reading
    assert client.receipts() == [f"r{number}" for number in range(5)]
    assert world.depth("/queue/q.31") == 5
    reader = world.connect()
    reader.subscribe("/queue/q.0")
    assert reader.bodies() == ["0", "other", "1", "2", "3", "4"]


def test_quick_frames_are_counted_and_slow_ones_count_for_more() -> None:
    world = slow_world()
    client = world.connect()
    read(client, sends(3 * LOOK_EVERY, "/queue/q"))
    assert 0 < arrived(world, "q") <= LOOK_EVERY
    world.settle_down()
    assert client.receipts() == [f"r{number}" for number in range(3 * LOOK_EVERY)]
    begins = b"".join(frame("BEGIN", {"transaction": f"{number}"}) for number in range(3))
    read(client, begins)
    assert len(client.session.core.transactions) == 1
    world.settle_down()
    assert len(client.session.core.transactions) == 3


def test_a_turn_that_was_short_goes_on_to_the_end_of_the_read() -> None:
    world = World(stopwatch=lambda: 1.0)
    client = world.connect()
    read(client, sends(5, WIDE))
    assert arrived(world, "q.0") == 5
    assert client.engine.reading


def test_messages_to_a_topic_with_many_readers_count_for_more() -> None:
    world = slow_world()
    for _ in range(64):
        world.connect().subscribe("/topic/t")
    client = world.connect()
    read(client, sends(LOOK_EVERY, "/topic/t"))
    assert world.broker.host.topics["t"].published == 4  # each counts for 1 + 64 / 8
    world.settle_down()
    assert world.broker.host.topics["t"].published == LOOK_EVERY


def test_a_peer_is_not_taken_for_dead_while_its_frames_wait_for_a_turn() -> None:
    world = slow_world()
    client = world.connect(**{"heart-beat": "1000,0"})
    read(client, sends(9, WIDE))
    for _ in range(3):
        world.now += 1.4
        client.engine.tick(world.now)
        assert not client.engine.is_closed
    world.settle_down()
    assert len(client.receipts()) == 9
    world.wait(1.6)
    assert "stale" in client.error()["message"]


def test_a_frame_that_is_refused_in_a_later_turn_ends_the_connection_with_its_receipt() -> None:
    world = slow_world()
    client = world.connect()
    read(client, sends(3, WIDE) + frame("COMMIT", {"transaction": "none", "receipt": "last"}))
    assert arrived(world, "q.0") == 1
    world.settle_down()
    assert [client.take("RECEIPT")["receipt-id"] for _ in range(3)] == ["r0", "r1", "r2"]
    assert client.error()["receipt-id"] == "last"
    assert arrived(world, "q.0") == 3
