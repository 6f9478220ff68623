"""Heart-beats: negotiation, when to beat, when the peer is given up."""

from __future__ import annotations

import pytest

from covey.core.errors import ProtocolError
from covey.protocols.stomp.heartbeat import Heartbeat


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (None, "100,10000"),
        ("0,0", "100,10000"),
        ("1000,2000", "2000,1000"),
        ("10,20", "100,100"),
        ("5000,0", "100,5000"),
        ("0,5000", "5000,10000"),
        ("60000,60000", "60000,60000"),
        (" 1000, 2000 ", "2000,1000"),
        ("0000,0100", "100,10000"),
    ],
)
def test_connected_answers_each_number_with_itself_but_not_below_100_ms(
    header: str | None, text: str
) -> None:
    assert Heartbeat(header, 0.0).text == text


def test_our_side_of_the_offer_is_a_setting() -> None:
    assert Heartbeat("10,20", 0.0, send_ms_min=50, receive_ms_wanted=7).text == "50,50"
    assert Heartbeat("0,0", 0.0, send_ms_min=50, receive_ms_wanted=7).text == "50,7"


@pytest.mark.parametrize("header", [None, "0,0"])
def test_without_heart_beats_nothing_is_ever_due(header: str | None) -> None:
    heartbeat = Heartbeat(header, 5.0)
    assert heartbeat.deadline() is None
    assert not heartbeat.beat_due(1e9)
    assert not heartbeat.expired(1e9)


def test_a_beat_is_due_after_the_asked_silence_and_not_before() -> None:
    heartbeat = Heartbeat("0,2000", 10.0)
    assert heartbeat.deadline() == 12.0
    assert not heartbeat.beat_due(11.999)
    assert heartbeat.beat_due(12.0)
    heartbeat.sent(12.0)
    assert not heartbeat.beat_due(13.999)
    assert heartbeat.beat_due(14.0)
    assert not heartbeat.expired(1e9)


def test_beats_never_go_more_often_than_every_100_ms() -> None:
    heartbeat = Heartbeat("0,1", 0.0)
    assert not heartbeat.beat_due(0.099)
    assert heartbeat.beat_due(0.1)


def test_a_peer_is_dead_after_one_and_a_half_intervals_of_silence() -> None:
    heartbeat = Heartbeat("2000,0", 10.0)
    assert heartbeat.deadline() == 13.0
    assert not heartbeat.expired(12.999)
    assert heartbeat.expired(13.0)
    heartbeat.received(12.5)
    assert not heartbeat.expired(15.499)
    assert heartbeat.expired(15.5)
    assert not heartbeat.beat_due(1e9)


def test_the_deadline_is_the_nearer_of_beat_and_death() -> None:
    heartbeat = Heartbeat("2000,4000", 0.0)
    assert heartbeat.deadline() == 3.0
    heartbeat.received(2.0)
    assert heartbeat.deadline() == 4.0
    heartbeat.sent(4.0)
    assert heartbeat.deadline() == 5.0


@pytest.mark.parametrize("header", ["333,0", "0,333", "777,1234"])
def test_at_its_deadline_something_is_due(header: str) -> None:
    heartbeat = Heartbeat(header, 1234.567)
    deadline = heartbeat.deadline()
    assert deadline is not None
    assert heartbeat.beat_due(deadline) or heartbeat.expired(deadline)
    assert not heartbeat.beat_due(deadline - 0.001)
    assert not heartbeat.expired(deadline - 0.001)


@pytest.mark.parametrize(
    "header",
    [
        *["", ",", "a,b", "1000", "1000,", ",1000", "1,2,3", "1;2"],
        *["-1,0", "0,-1", "+1,0", "1.5,0", "1e3,0", "1_0,0", "0x1,0"],
        *["\u0661,0", "\xb2,0", "0," + "9" * 11, "9" * 5000 + ",0"],
    ],
)
def test_a_bad_header_is_refused(header: str) -> None:
    with pytest.raises(ProtocolError, match="heart-beat header"):
        Heartbeat(header, 0.0)
