"""The compiled build answers every stream of bytes with the bytes of the plain one.

Valid talks whole, byte by byte, in random chunks and cut at every place; and talks that are broken
at random. Skipped where there is no compiled build of this source: `scripts/test --compiled` makes
one first, and then this process has it, and the worker the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.properties.builds import Job, Way, Worker, answers, other_build
from tests.properties.mutators import mutated_talk
from tests.properties.stage import Talk
from tests.properties.talks import all_talks

pytestmark = pytest.mark.slow  # all places and all inputs: not for the inner loop

CHUNKINGS = 40  # ways to cut a talk into random chunks
WIDE = 2000  # bytes of a step of which not every place is tried
STRIDE = 31
BROKEN = 4000  # talks that are broken at random
BATCH = 200

TALKS = {talk.name: talk for talk in all_talks()}


@pytest.fixture(scope="module")
def other() -> Iterator[Worker]:
    build = other_build()
    if build is None:
        pytest.skip("the two builds are not compared: scripts/build has not compiled this source")
    with Worker(build) as worker:
        yield worker


def every_way(talk: Talk) -> list[Way]:
    """Return all ways in which a talk is tried."""
    ways: list[Way] = [("whole",), ("bytewise",)]
    ways += [("by", seed) for seed in range(CHUNKINGS)]
    for step, (_, said) in enumerate(talk.steps):
        stride = STRIDE if len(said) > WIDE else 1
        ways += [("at", step, place) for place in range(1, len(said), stride)]
    return ways


def compare(other: Worker, job: Job) -> None:
    """Have both builds do a job, at the same time."""
    other.start(job)
    ours = answers(job)
    theirs = other.result()
    talk, ways, _ = job
    for way, here, there in zip(ways, ours, theirs, strict=True):
        if here != there:
            job = (talk, [way], True)
            other.start(job)
            assert answers(job) == other.result(), (talk, way)


@pytest.mark.parametrize("name", TALKS)
def test_both_builds_say_the_same_wherever_what_they_hear_is_cut(other: Worker, name: str) -> None:
    compare(other, (TALKS[name], every_way(TALKS[name]), False))


@pytest.mark.parametrize("batch", range(BROKEN // BATCH))
def test_both_builds_say_the_same_to_what_makes_no_sense(other: Worker, batch: int) -> None:
    dice = Random(batch)
    talks = [talk for talk in TALKS.values() if talk.size < WIDE]
    for _ in range(BATCH):
        compare(other, (mutated_talk(dice.choice(talks), dice), [("whole",)], False))
