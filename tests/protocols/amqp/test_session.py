"""Channel: what a session says, to whom, and in which order, as bytes.

Dispositions: what is said of neighbours alike is said once.
"""

from __future__ import annotations

import pytest

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec import decoder
from covey.protocols.amqp.codec.encoder import (
    FALSE,
    NULL,
    TRUE,
    compound,
    section,
    string,
    symbol,
    uint,
)
from covey.protocols.amqp.codec.performatives import HEAD_SIZE, MASK
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.outcomes import ACCEPTED_STATE, plain
from covey.protocols.amqp.session import Dispositions
from tests.e2e.amqp_bytes import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    HEADER_SIZE,
    TARGET,
    TRANSFER,
    WINDOW,
    accepting,
    attaching,
    beginning,
    frame,
    granting,
    says,
    transferring,
)
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import READER, SENDER, Raw, enqueued, flow, only

CREDIT = 1000  # of a link, by default
NUMBER_SIZE = 3  # bytes of a performative's number with its codes


def named(name: str, written: bytes) -> bytes:
    """Write a frame's performative by its name."""
    body = written[HEADER_SIZE + NUMBER_SIZE :]
    return frame(b"\x00" + symbol(f"amqp:{name}:list") + body)


def test_performatives_may_be_written_by_name(broker: Broker) -> None:
    raw = Raw(broker)
    heard = raw.say(
        named("attach", SENDER),
        named("transfer", transferring(0, 0, b"x")),
        named("detach", says(DETACH, uint(0), TRUE)),
        named("attach", READER),
        named("flow", granting(1)),
        named("disposition", accepting(0, 0)),
    )
    answers = [each.code for each in heard if each.code != FLOW]
    assert answers == [ATTACH, DISPOSITION, DETACH, ATTACH, CLOSE]  # it is too early to accept
    raw = Raw(broker)
    assert [each.code for each in raw.say(named("end", says(END)))] == [END]
    assert [each.code for each in raw.say(named("begin", beginning()))][:1] == [BEGIN]
    assert [each.code for each in raw.say(named("close", says(CLOSE)))] == [CLOSE]
    raw = Raw(broker)
    assert [each.code for each in raw.say(named("dance", says(FLOW)))] == [CLOSE]


# In one piece.


def test_a_whole_session_may_come_in_one_piece(broker: Broker, raw: Raw) -> None:
    raw.say(says(END))
    whole = (beginning(), SENDER, transferring(0, 0, b"x"), says(END))
    heard = [each.code for each in raw.say(*whole, *whole) if each.code != FLOW]
    assert heard == [BEGIN, ATTACH, DISPOSITION, END] * 2
    assert enqueued(broker) == 2
    assert not raw.engine.framing.due


def test_links_that_come_and_go_in_one_piece_keep_their_handles(broker: Broker, raw: Raw) -> None:
    other = attaching("other", 5, "other", sends=True)
    heard = raw.say(SENDER, other, says(DETACH, uint(0), TRUE), SENDER, READER, granting(1))
    handles = [each[1] for each in only(ATTACH, heard)]
    links = [each for each in raw.engine.framing.channels[0].links.values() if each is not None]
    assert {each.name: each.own_handle for each in links} == {
        "other": handles[1],
        "in": handles[2],
        "out": handles[3],
    }
    granted = [each[4] for each in only(FLOW, heard)]
    assert set(granted) == {handles[0], handles[1]}
    heard = raw.say(transferring(0, 0, b"x"))
    assert [each[0] for each in only(TRANSFER, heard)] == [handles[3]]


def test_answers_that_nobody_reads_are_bounded(broker: Broker) -> None:
    raw = Raw(broker)
    cycle = attaching("x" * 50_000, 0, "q", sends=True) + says(DETACH, uint(0), TRUE)
    for _ in range(100):
        assert {each.code for each in raw.say(cycle)} == {ATTACH, FLOW, DETACH}
    for _ in range(100):
        raw.engine.receive(cycle, raw.now)
    assert raw.engine.is_closed
    assert raw.hear()[-1].condition == "amqp:resource-limit-exceeded"


# Flows.


def test_echoes_are_answered_once_a_turn(raw: Raw) -> None:
    raw.say(SENDER, READER)
    echo = flow(100, credit=5, rest=(NULL, FALSE, TRUE))
    assert [each[6] for each in only(FLOW, raw.say(*[echo] * 50))] == [5]


def test_credit_that_a_sender_lets_go_is_given_anew(raw: Raw) -> None:
    raw.say(SENDER)
    session = (uint(0), WINDOW, uint(0), WINDOW)
    for count, told in ((CREDIT // 4, []), (CREDIT, [[CREDIT, CREDIT]]), (7, [])):
        heard = raw.say(says(FLOW, *session, uint(0), uint(count), uint(0)))
        assert [each[5:7] for each in only(FLOW, heard)] == told
    (link,) = raw.engine.links.open.values()
    assert isinstance(link, IncomingLink)
    assert (link.delivery_count, link.delivery_limit) == (CREDIT, 2 * CREDIT)


def test_links_of_one_session_share_its_window_by_turns(raw: Raw) -> None:
    raw.say(SENDER, attaching("other in", 2, "other", sends=True), READER)
    raw.say(attaching("other out", 3, "other", sends=False), flow(0))
    raw.say(says(FLOW, uint(0), uint(0), uint(0), WINDOW, uint(3), uint(0), uint(100)))
    raw.say(*[transferring(0, number, b"x") for number in range(9)])
    raw.say(*[transferring(2, number, b"x") for number in range(9, 12)])
    links = raw.engine.framing.channels[0].links
    handles = [link.own_handle for link in (links[1], links[3]) if link is not None]
    session = [says(FLOW, uint(number), uint(1), uint(0), WINDOW) for number in range(6)]
    heard = [only(TRANSFER, raw.say(each))[0][0] for each in session]
    assert heard == handles * 3


def test_links_of_one_connection_share_its_output_by_turns(broker: Broker, raw: Raw) -> None:
    raw.say(SENDER, *[transferring(0, number, b"x" * 60_000) for number in range(9)])
    raw.say(attaching("other in", 2, "other", sends=True), transferring(2, 9, b"y"))
    raw.say(READER, attaching("other out", 3, "other", sends=False))
    for handle in (1, 3):
        raw.engine.receive(granting(handle), raw.now)
    link = raw.engine.framing.channels[0].links[3]
    pieces = [raw.hear() for _ in range(2)]
    assert link is not None
    assert [only(TRANSFER, heard)[0][0] == link.own_handle for heard in pieces] == [False, True]


# Settled second.


def settling_second(raw: Raw) -> None:
    modes = (b"\x50\x02", b"\x50\x01")
    target = section(TARGET, compound([string("q")]))
    raw.say(says(ATTACH, string("in"), uint(0), FALSE, *modes, NULL, target, NULL, NULL, uint(0)))


def test_what_a_sender_settles_second_may_be_any_range(broker: Broker, raw: Raw) -> None:
    settling_second(raw)
    numbers = [2**32 - 3 + number for number in range(9)]
    heard = raw.say(*[transferring(0, number % 2**32, b"x") for number in numbers])
    assert [each[1:4] for each in only(DISPOSITION, heard)] == [[2**32 - 3, 5, False]]
    (link,) = raw.engine.links.open.values()
    raw.say(accepting(2**32 - 2, 0, receives=False))
    assert link.unsettled == {2**32 - 3, 1, 2, 3, 4, 5}
    raw.say(accepting(4, 2**31, receives=False))
    assert link.unsettled == {2**32 - 3, 1, 2, 3}


def test_a_sender_that_settles_nothing_gets_no_more_credit() -> None:
    broker = make_broker(broker={"unsettled_max": 20})
    raw = Raw(broker, AmqpSettings(allow_anonymous=True, link_credit=10))
    settling_second(raw)
    for number in range(30):
        heard = raw.say(transferring(0, number, b"x"))
        if any(each.code == DETACH for each in heard):
            break
    assert number == 30 - 5
    assert enqueued(broker) == 25


# The end.


def test_nothing_is_said_on_a_session_that_has_ended(raw: Raw) -> None:
    heard = raw.say(SENDER, attaching("other", 0, "q", sends=True))
    assert heard[-1].code == END
    assert raw.say(*[transferring(0, number, b"x") for number in range(CREDIT * 3)]) == []


def test_a_window_that_is_overrun_while_the_sender_has_to_wait_ends_the_session() -> None:
    raw = Raw(make_broker(queue=({"id": "**", "quota_messages": 1},)))
    raw.say(SENDER, *[transferring(0, number, b"x") for number in range(2)])
    first = says(TRANSFER, uint(0), uint(2), b"\xa0\x01t", uint(0), FALSE, TRUE)
    parts = [says(TRANSFER, uint(0), NULL, NULL, NULL, FALSE, TRUE)] * 2100
    echo = says(FLOW, uint(0), WINDOW, uint(0), WINDOW, uint(0), NULL, NULL, NULL, FALSE, TRUE)
    heard = raw.say(first, echo, *parts)
    assert [each.condition for each in heard if each.code != FLOW] == [
        "amqp:session:window-violation"
    ]


def test_a_detach_of_no_link_ends_the_session(raw: Raw) -> None:
    (end,) = raw.say(says(DETACH, uint(9), TRUE))
    assert (end.code, end.condition) == (END, "amqp:session:unattached-handle")


RELEASED = plain(0x26)


def ranges(said: list[tuple[int, bytes, bool]]) -> list[tuple[object, object, object]]:
    """Say these in turn; return first, last and settled of each frame."""
    dispositions = Dispositions(receives=True)
    for number, state, is_settled in said:
        dispositions.add(number, state, is_settled)
    parts: list[bytes] = []
    dispositions.write(3, parts)
    dispositions.write(3, parts)  # once is enough
    found = []
    for part in parts:
        body = decoder.decode(part, HEAD_SIZE)
        assert isinstance(body, decoder.Described) and isinstance(body.value, list)
        found.append((body.value[1], body.value[2], body.value[3]))
    return found


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([], []),
        ([(0, ACCEPTED_STATE, True)], [(0, None, True)]),
        ([(n, ACCEPTED_STATE, True) for n in range(5)], [(0, 4, True)]),
        ([(n, ACCEPTED_STATE, True) for n in (1, 2, 4)], [(1, 2, True), (4, None, True)]),
        (
            [(2, ACCEPTED_STATE, True), (1, ACCEPTED_STATE, True)],
            [(2, None, True), (1, None, True)],
        ),
        ([(0, ACCEPTED_STATE, True), (1, RELEASED, True)], [(0, None, True), (1, None, True)]),
        ([(0, RELEASED, False), (1, RELEASED, True)], [(0, None, False), (1, None, True)]),
        ([(n & MASK, RELEASED, True) for n in range(MASK, MASK + 3)], [(MASK, 1, True)]),
    ],
)
def test_neighbours_of_which_the_same_is_said_are_one_range(
    said: list[tuple[int, bytes, bool]], expected: list[tuple[object, object, object]]
) -> None:
    assert ranges(said) == expected
