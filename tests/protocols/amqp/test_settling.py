"""A disposition of very many deliveries goes in portions, and what comes behind it waits."""

from __future__ import annotations

import pytest

from covey.config.settings import AmqpSettings
from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec.decoder import Described
from covey.protocols.amqp.codec.encoder import NULL, TRUE, binary, boolean, compound, section, uint
from covey.protocols.amqp.outcomes import ACCEPTED, MODIFIED, REJECTED, RELEASED, TRANSACTIONAL
from tests.core.support import depth
from tests.e2e.amqp_bytes import DETACH, DISPOSITION, attaching, says, transferring
from tests.protocols.amqp.peer import OPEN_TO_ALL, make_broker
from tests.protocols.amqp.raw import READER, SENDER, Raw, flow, only

COUNT = 90
DETACHING = says(DETACH, uint(1), TRUE)


def deciding(first: int, last: int, state: bytes, *, settled: bool = True) -> bytes:
    """Write a disposition of a range."""
    return says(DISPOSITION, TRUE, uint(first), uint(last), boolean(settled), state)


def outcome(code: int, *fields: bytes) -> bytes:
    return section(code, compound(list(fields)))


OUTCOMES = {
    "accepted": outcome(ACCEPTED),
    "released": outcome(RELEASED),
    "failed": outcome(MODIFIED, TRUE),
    "rejected": outcome(REJECTED),
}


class Reading(Raw):
    """A connection that holds all messages of a queue."""

    def __init__(self, settings: AmqpSettings = OPEN_TO_ALL, *, portion: int = 10) -> None:
        self.desk = make_broker(queue=({"id": "q", "dlq": "dead"},))
        super().__init__(self.desk, settings)
        self.say(SENDER, *[transferring(0, number, b"x") for number in range(COUNT)])
        heard = self.say(READER, flow(1000, credit=COUNT))
        assert len(heard) > COUNT
        self.desk.jobs.allow(portion, 5.0, 10**6)

    def finish(self) -> list[int]:
        """Do all that is under way; return the deliveries that the broker settles."""
        found: list[int] = []
        for _ in range(40):
            self.desk.go_on(self.now)
            for fields in only(DISPOSITION, self.hear()):
                first, last = fields[1], fields[2]
                assert isinstance(first, int)
                found += range(first, (last if isinstance(last, int) else first) + 1)
        return found


def left(broker: Broker) -> tuple[int, int, list[int]]:
    """Tell what the queue and its dead letters hold, and how often each was tried."""
    queues = broker.host.queues
    index = queues["q"].state.index
    dead = depth(queues["dead"]) if "dead" in queues else 0
    return depth(queues["q"]), dead, [entry.deliveries for entry in index]


@pytest.mark.parametrize("is_settled", [True, False])
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_range_in_portions_ends_as_if_it_were_done_at_once(name: str, is_settled: bool) -> None:
    ends = []
    for portion in (10, 10**6):
        raw = Reading(portion=portion)
        data = deciding(0, COUNT - 1, OUTCOMES[name], settled=is_settled)
        raw.engine.receive(data + DETACHING, raw.now)
        is_short = portion > COUNT or (name == "accepted" and is_settled)
        assert raw.engine.reading == is_short
        settled = raw.finish()
        assert raw.engine.reading
        assert not raw.desk.jobs.is_any
        ends.append((left(raw.desk), settled))
    assert ends[0] == ends[1]


def test_others_are_served_and_the_peer_is_not_taken_for_dead() -> None:
    raw = Reading(AmqpSettings(allow_anonymous=True, idle_timeout_s=8))
    raw.engine.receive(deciding(0, COUNT - 1, OUTCOMES["released"]), raw.now)
    for _ in range(4):
        raw.now += 5
        raw.hear()
    assert not raw.engine.is_closed
    other = Raw(raw.desk)
    other.say(attaching("in", 0, "p", sends=True), transferring(0, 0, b"x"))
    assert depth(raw.desk.host.queues["p"]) == 1
    raw.finish()
    assert raw.engine.reading


def test_bytes_that_come_all_the_same_wait_for_its_end() -> None:
    raw = Reading()
    raw.engine.receive(deciding(0, COUNT - 1, OUTCOMES["rejected"]), raw.now)
    raw.engine.receive(DETACHING[:7], raw.now)
    raw.engine.receive(DETACHING[7:], raw.now)
    assert len(raw.engine.links.open) == 2
    raw.finish()
    assert len(raw.engine.links.open) == 1
    assert left(raw.desk)[:2] == (0, COUNT)


def test_a_connection_that_is_lost_meanwhile_gives_the_rest_back() -> None:
    raw = Reading()
    raw.engine.receive(deciding(0, COUNT - 1, OUTCOMES["rejected"]), raw.now)
    raw.desk.go_on(raw.now)
    raw.engine.lost(raw.now)
    while raw.desk.jobs.is_any:
        raw.desk.go_on(raw.now)
    queued, dead, _ = left(raw.desk)
    assert queued + dead == COUNT
    assert 0 < dead < COUNT
    assert raw.desk.host.queues["q"].state.index.count == queued


def test_a_discharge_behind_it_commits_all_of_it() -> None:
    raw = Reading()
    coordinator = section(0x30, compound([]))
    attach = (b"\xa1\x02tx", uint(2), boolean(False), b"\x50\x00", b"\x50\x00", NULL, coordinator)
    raw.say(says(0x12, *attach, NULL, NULL, uint(0)))
    declare = section(0x77, section(0x31, compound([NULL])))
    (answer,) = only(DISPOSITION, raw.say(transferring(2, COUNT, b"", message=declare)))
    assert isinstance(answer[4], Described)
    assert answer[4].value == [b"amqp-1"]
    id = binary(b"amqp-1")
    state = outcome(TRANSACTIONAL, id, OUTCOMES["accepted"])
    discharge = section(0x77, section(0x32, compound([id, boolean(False)])))
    raw.engine.receive(
        deciding(0, COUNT - 1, state, settled=False)
        + transferring(2, COUNT + 1, b"", message=discharge),
        raw.now,
    )
    assert not raw.engine.reading
    assert COUNT + 1 in raw.finish()
    assert left(raw.desk)[:2] == (0, 0)
