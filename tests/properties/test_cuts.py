"""A client's bytes mean the same however they are cut: not at all, byte by byte, anywhere."""

from __future__ import annotations

import pytest

from tests.properties.hearing import Hearing, understood
from tests.properties.stage import FAULT, Talk, bytewise, cut_at, cut_by, play, whole
from tests.properties.talks import ACKS, all_talks

pytestmark = pytest.mark.slow  # all places and all inputs: not for the inner loop

CHUNKINGS = 10  # ways to cut into random chunks
WIDE = 2000  # bytes of a step of which not every place is tried
STRIDE = 97
# Much like others: not every place of these is tried, either.
KIN = ("1.0 auto", "1.1 client", "1.2 auto", "hash-buckets", "lru", "simple", "mistake")
KIN_STRIDE = 7

TALKS = {talk.name: talk for talk in all_talks()}


def meaning(talk: Talk, heard: list[bytes]) -> list[Hearing]:
    return [understood(protocol, said) for protocol, said in zip(talk.clients, heard, strict=True)]


def places(name: str, said: bytes) -> range:
    """Return where to cut a step: everywhere, or here and there where that would take too long."""
    stride = KIN_STRIDE if any(word in name for word in KIN) else 1
    return range(1, len(said), STRIDE if len(said) > WIDE else stride)


@pytest.mark.parametrize("name", TALKS)
def test_every_talk_is_answered_without_a_fault_and_the_same_again(name: str) -> None:
    heard = play(TALKS[name], whole)
    assert not any(FAULT in said for said in heard)
    assert any(b"\nERROR\n" in said for said in heard) == ("mistake" in name)
    assert play(TALKS[name], whole) == heard


@pytest.mark.parametrize("name", TALKS)
def test_what_is_said_means_the_same_wherever_it_is_cut(name: str) -> None:
    talk = TALKS[name]
    expected = meaning(talk, play(talk, whole))
    for step, (_, said) in enumerate(talk.steps):
        for place in places(name, said):
            assert meaning(talk, play(talk, cut_at(step, place))) == expected, (step, place)


@pytest.mark.parametrize("name", TALKS)
def test_what_is_said_means_the_same_in_any_chunks(name: str) -> None:
    talk = TALKS[name]
    expected = meaning(talk, play(talk, whole))
    assert meaning(talk, play(talk, bytewise)) == expected
    for seed in range(CHUNKINGS):
        assert meaning(talk, play(talk, cut_by(seed))) == expected, seed


def test_a_row_of_acks_is_taken_however_a_read_ends_in_it() -> None:
    talk = TALKS["stomp row of acks"]
    (row,) = [number for number, (_, said) in enumerate(talk.steps) if said.startswith(b"ACK")]
    assert talk.steps[row][1].count(b"ACK\nid:") == ACKS
    expected = play(talk, whole)
    around = talk.steps[row][1].index(b"ACK", 3000)
    for place in range(around, around + 40):
        assert play(talk, cut_at(row, place)) == expected, place
