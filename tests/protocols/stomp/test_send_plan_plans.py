"""Plans: the short way reads every block as the long one does, and needs it less often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.config.connectors import UserHeaderSettings
from covey.config.settings import StompSettings
from covey.core.errors import BrokerError, ProtocolError
from covey.protocols.stomp.send_plan import PLANS_MAX, Plans, SendPlan
from covey.protocols.stomp.versions import Version
from tests.protocols.stomp.support import World

# All of a plan but its block; a compiled class cannot list them.
FIELDS = (
    "targets transaction is_persistent may_persist given_id receipt retain expires_ms ttl_ms"
    " delay_ms priority group group_sequence is_plain"
).split()

LINES = st.sampled_from(
    [
        b"destination:/queue/b",
        b"destination-type:ANYCAST",
        b"persistent:true",
        b"priority:7",
        b"retain:set",
        b"transaction:t",
        b"ttl:5",
        b"expiration:6",
        b"expires:7",
        b"expires:0",
        b"AMQ_SCHEDULED_DELAY:9",
        b"message-id:m-1",
        b"message-id:",
        b"receipt:r",
        b"receipt:",
        b"content-length:3",
        b"message_group:g",
        b"message_group:",
        b"JMSXGroupID:h",
        b"JMSXGroupSeq:-1",
        b"JMSXGroupSeq:x",
        b"reply-to:/queue/r",
        b"reply-to:/temp-queue/r",
        b"redelivered:true",
        b"JMSXUserID:root",
        b"who:root",
        b"stamped:1",
        b"a:1",
        b"a:2",
        b"b:",
        b"c:x:y",
        b"d:\\n",
        b"e:\xc3\xa4",
        b":f",
        b"g",
        b"",
        b" h : i ",
    ]
)


def plans(version: Version = Version.V1_2) -> Plans:
    settings = StompSettings(
        add_timestamp_header="stamped",
        add_user_header=(UserHeaderSettings(header="who", kind="*", separator=None),),
    )
    names = World(stomp=settings).connect().session.names
    return Plans(names, settings, version, [("who", "guest")], "guest")


def said(plan: SendPlan) -> list[object]:
    return [*(getattr(plan, name) for name in FIELDS), plan.block.v1_2, plan.block.user]


@given(st.lists(LINES, max_size=6), st.sampled_from(list(Version)))
def test_the_short_way_says_what_the_long_way_says(lines: list[bytes], version: Version) -> None:
    block = b"\n".join([b"destination:/queue/a", *lines])
    short = plans(version)
    short.read(b"destination:/queue/a")
    try:
        expected = said(plans(version)._read_all(block))
    except BrokerError as error:
        with pytest.raises(type(error), match="^" + error.text.split(":")[0]):
            short.read(block)
    else:
        assert said(short.read(block)) == expected


def test_sends_that_differ_in_their_own_lines_share_what_steers_them() -> None:
    found = plans()
    for number in range(100):
        block = b"destination:/queue/a\npersistent:true\nmessage-id:%d\nreceipt:%d\nn:%d"
        plan = found.read(block % (number, number, number))
        assert (plan.given_id, plan.receipt, plan.is_persistent) == (str(number), str(number), True)
        assert plan.block.v1_2.startswith(b"\ndestination:/queue/a\npersistent:true\nn:%d" % number)
    assert len(found) == 1


def test_what_is_remembered_is_bounded() -> None:
    found = plans()
    for number in range(PLANS_MAX + 10):
        found.read(b"destination:/queue/%d" % number)
    assert len(found) == 10


def test_a_send_without_a_destination_is_refused() -> None:
    with pytest.raises(ProtocolError, match="destination"):
        plans().read(b"a:b")
