"""What the headers of a SEND say, and which of them travel with the message."""

from __future__ import annotations

import pytest

from covey.config.connectors import UserHeaderSettings
from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import StompSettings
from covey.core.errors import ProtocolError
from covey.core.model.message import FORGET_RETAINED, KEEP_NOTHING, RETAIN
from covey.protocols.stomp.send_plan import SendPlan, read_plan
from tests.protocols.stomp.support import World


def plan(**headers: str) -> SendPlan:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_plan({"destination": "/queue/a", **named}, (), [])


@pytest.mark.parametrize(
    ("value", "effect"),
    [
        ("set", RETAIN),
        ("true", RETAIN),
        ("SET", RETAIN),
        ("remove", FORGET_RETAINED),
        ("false", KEEP_NOTHING),
    ],
)
def test_s30_s31_retain_is_set_true_or_remove(value: str, effect: int) -> None:
    assert plan(retain=value).retain == effect


@pytest.mark.parametrize("value", ["x", "", "keep"])
def test_another_word_for_retain_is_refused(value: str) -> None:
    with pytest.raises(ProtocolError, match=f"retain:{value} is neither set nor remove"):
        plan(retain=value)


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_persistent_may_be_capitals_as_python_writes_them(value: str) -> None:
    assert (plan(persistent=value).is_persistent, plan(persistent=value).may_persist) == (
        True,
        True,
    )


def test_what_is_not_persistent_says_false_or_nothing() -> None:
    assert (plan(persistent="False").is_persistent, plan(persistent="False").may_persist) == (
        False,
        False,
    )
    assert (plan().is_persistent, plan().may_persist) == (False, True)
    with pytest.raises(ProtocolError, match="persistent:ture is neither true nor false"):
        plan(persistent="ture")


def test_s38_s39_expires_wins_over_ttl_even_when_it_is_never() -> None:
    assert (plan(ttl="5").ttl_ms, plan(expiration="5").ttl_ms) == (5, 5)
    both = plan(expires="7", ttl="5")
    assert (both.expires_ms, both.ttl_ms) == (7, 0)
    never = plan(expires="0", ttl="5")
    assert (never.expires_ms, never.ttl_ms) == (0, 0)


@pytest.mark.parametrize("name", ["expires", "ttl", "expiration", "AMQ_SCHEDULED_DELAY"])
@pytest.mark.parametrize("value", ["-1", "soon", "1.5", "", "9" * 40, "\u0661"])
def test_times_that_are_no_numbers_are_refused(name: str, value: str) -> None:
    with pytest.raises(ProtocolError, match=name):
        read_plan({"destination": "/queue/a", name: value}, (), [])


@pytest.mark.parametrize("name", ["message_group", "JMSXGroupID", "JMSXGroupId"])
def test_the_group_has_three_names(name: str) -> None:
    found = read_plan({name: "g", "JMSXGroupSeq": "-1"}, (), [])
    assert (found.group, found.group_sequence) == ("g", -1)


def test_an_empty_group_is_none() -> None:
    assert read_plan({"message_group": "", "JMSXGroupID": "g"}, (), []).group == "g"


def test_headers_of_one_hop_do_not_travel_and_findings_cannot_be_forged() -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.send(
        "SEND",
        {
            "destination": "/queue/a",
            "receipt": "r",
            "transaction": "t",
            "subscription": "forged",
            "ack": "forged",
            "redelivered": "true",
            "JMSXUserID": "eve",
            "JMSXGroupFirstForConsumer": "true",
            "own": "kept",
        },
        "x",
    )
    client.send("COMMIT", {"transaction": "t"})
    client.take("RECEIPT")
    message = client.take()
    assert set(message.headers) == {
        "subscription",
        "message-id",
        "destination",
        "own",
        "content-length",
    }
    assert message["subscription"] == "s"


def test_a_clients_own_message_id_is_kept() -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "x", message_id="mine")
    client.publish("/queue/a", "y")
    mine, ours = client.take_all()
    assert mine["message-id"] == "mine"
    assert ours["message-id"] not in ("", "mine")


def test_s3_add_user_header_replaces_what_a_sender_claims() -> None:
    world = World(stomp=StompSettings(add_user_header=(UserHeaderSettings(header="sender"),)))
    client = world.connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "x", sender="eve")
    message = client.take()
    assert message["sender"] == "admin"
    assert message.block.count(b"sender:") == 1


def test_s4_add_timestamp_header_is_the_time_of_receipt_and_cannot_be_forged() -> None:
    world = World(stomp=StompSettings(add_timestamp_header="received"))
    client = world.connect()
    client.publish("/queue/a", "x", received="7")
    first_ms = world.wall_ms
    world.wait(1.0)
    client.publish("/queue/a", "y", received="7")
    client.subscribe("/queue/a")
    received = client.take_all()
    assert [one["received"] for one in received] == [str(first_ms), str(first_ms + 1000)]
    assert received[0].block.count(b"received:") == 1


def test_none_of_the_added_headers_is_there_by_default() -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "x")
    assert set(client.take().headers) == {
        "subscription",
        "message-id",
        "destination",
        "content-length",
    }


def test_keep_original_reply_to_sends_the_clients_own_line_second() -> None:
    world = World(stomp=StompSettings(keep_original_reply_to=True))
    client = world.connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "x", reply_to="/temp-queue/b")
    message = client.take()
    assert message["reply-to"] == "/queue/temp.default.1.b"
    assert message.block.endswith(b"\nreply-to:/temp-queue/b")


@pytest.mark.parametrize("reply_to", ["/queue/b", "anything at all", "/temp-queue/", ""])
def test_other_reply_tos_are_the_applications_own(reply_to: str) -> None:
    client = World().connect()
    client.subscribe("/queue/a")
    client.publish("/queue/a", "x", reply_to=reply_to)
    assert client.take()["reply-to"] == reply_to


def test_a_producer_that_never_repeats_itself_costs_no_memory() -> None:
    client = World().connect()
    for number in range(3000):
        client.publish("/queue/a", "x", number=str(number))
    assert len(client.session.producer.plans) == 1


def test_a_group_id_over_the_limit_is_refused_with_its_queue() -> None:
    client = World(limits={"group_id_length_max": 4}).connect()
    client.send("SEND", {"destination": "/queue/a", "message_group": "hello", "receipt": "r"}, "x")
    assert client.error()["receipt-id"] == "r"


def test_messages_of_one_head_keep_their_own_ids_and_receipts() -> None:
    world = World()
    client, reader = world.connect(), world.connect()
    reader.subscribe("/queue/a")
    line = b"SEND\ndestination:/queue/a\nmessage-id:m%d\nreceipt:r%d\n\nx\0"
    client.feed(b"".join(line % (number, number) for number in range(3)))
    client.feed(b"SEND\ndestination:/queue/a\n\nx\0")
    assert client.receipts() == ["r0", "r1", "r2"]
    ids = [frame["message-id"] for frame in reader.take_all()]
    assert ids[:3] == ["m0", "m1", "m2"]
    assert ids[3] not in ("", "m2")


@pytest.mark.parametrize("header", ["message_group", "JMSXGroupID", "JMSXGroupId", "region"])
@pytest.mark.parametrize("times", [1, 3])
def test_an_id_that_is_too_long_is_refused_by_the_header_it_stood_in(
    header: str, times: int
) -> None:
    groups = GroupSettings(header="region") if header == "region" else GroupSettings()
    world = World(queues=[QueueSettings(groups=groups)], limits={"group_id_length_max": 8})
    client = world.connect()
    for _ in range(times - 1):
        client.send("SEND", {"destination": "/queue/a", header: "fits"})
    client.send("SEND", {"destination": "/queue/a", header: "123456789"})
    text = client.error()["message"]
    assert text == f"queue a: the group id in {header} has 9 bytes, the limit is 8"
