"""What cannot be done: a message to nowhere, a settlement of nothing, alone and in transactions."""

from __future__ import annotations

import pytest

from covey.core.broker.broker import Broker
from covey.protocols.amqp.codec import decoder, encoder
from covey.protocols.amqp.codec.encoder import (
    FALSE,
    NULL,
    TRUE,
    binary,
    compound,
    section,
    string,
    uint,
)
from tests.core.support import depth
from tests.e2e.amqp_bytes import (
    ATTACH,
    DATA,
    DETACH,
    DISPOSITION,
    SOURCE,
    TARGET,
    TRANSFER,
    Heard,
    granting,
    says,
    transferring,
)
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import READER, Raw, only

DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34
ACCEPTED, REJECTED = 0x24, 0x25
PROPERTIES, VALUE = 0x73, 0x77
NOWHERE = "nowhere"
CONTROL, RELAY = 8, 9  # handles


@pytest.fixture
def broker() -> Broker:
    """Return a broker with one queue, in which none is made by using it."""
    broker = make_broker(broker={"auto_create": False})
    broker.host.queue("q")
    return broker


def message(to: str | None, body: bytes = b"x") -> bytes:
    """Write a message that names where it is to go."""
    head = b"" if to is None else section(PROPERTIES, compound([NULL, NULL, string(to)]))
    return head + section(DATA, binary(body))


def attach(handle: int, target: bytes, *outcomes: str) -> bytes:
    """Write an attach of a sending link whose source knows these outcomes; none: all."""
    source = compound([NULL] * 9 + [encoder.symbols(outcomes)]) if outcomes else compound([])
    modes = (b"\x50\x02", b"\x50\x00")
    ends = (section(SOURCE, source), target)
    name = string(f"link {handle}")
    return says(ATTACH, name, uint(handle), FALSE, *modes, *ends, NULL, NULL, uint(0))


def relay(*outcomes: str) -> bytes:
    return attach(RELAY, section(TARGET, compound([])), *outcomes)


def control(*outcomes: str) -> bytes:
    return attach(CONTROL, section(0x30, compound([])), *outcomes)


def transfer(
    handle: int, number: int, payload: bytes, *, id: bytes = b"", settled: bool = False
) -> bytes:
    """Write a transfer, in a transaction if it has an id."""
    state = section(TRANSACTIONAL, compound([binary(id)])) if id else NULL
    tag = binary(b"tag %d" % number)
    flags = (TRUE if settled else FALSE, FALSE, NULL, state)
    return says(TRANSFER, uint(handle), uint(number), tag, uint(0), *flags, payload=payload)


def declare(raw: Raw, number: int) -> bytes:
    body = section(VALUE, section(DECLARE, compound([NULL])))
    state = answers(raw.say(transfer(CONTROL, number, body)))[0]
    assert state.descriptor == DECLARED and isinstance(state.value, list)
    assert isinstance(state.value[0], bytes)
    return state.value[0]


def discharge(number: int, id: bytes, *, fail: bool = False) -> bytes:
    command = compound([binary(id), TRUE if fail else FALSE])
    return transfer(CONTROL, number, section(VALUE, section(DISCHARGE, command)))


def settling(first: int, last: int, id: bytes, *, outcome: int = ACCEPTED) -> bytes:
    """Write a disposition in a transaction."""
    state = section(TRANSACTIONAL, compound([binary(id), section(outcome, compound([]))]))
    return says(DISPOSITION, TRUE, uint(first), uint(last), TRUE, state)


def answers(heard: list[Heard]) -> list[decoder.Described]:
    """Return what the broker says of deliveries."""
    states = [fields[4] for fields in only(DISPOSITION, heard)]
    return [state for state in states if isinstance(state, decoder.Described)]


def error_of(state: object) -> tuple[str, object]:
    """Return the condition of a rejection, and its info."""
    assert isinstance(state, decoder.Described) and state.descriptor == REJECTED
    assert isinstance(state.value, list)
    return described_error(state.value[0])


def described_error(error: object) -> tuple[str, object]:
    assert isinstance(error, decoder.Described) and isinstance(error.value, list)
    return str(error.value[0]), error.value[2] if len(error.value) > 2 else None


def rolled_back(heard: list[Heard]) -> bool:
    """Say whether a discharge was refused for what was in its transaction."""
    return error_of(answers(heard)[-1])[0] == "amqp:transaction:rollback"


def messages(broker: Broker, name: str) -> int:
    queue = broker.host.queues.get(name)
    return 0 if queue is None else depth(queue)


# The anonymous relay.


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (message(NOWHERE), "amqp:not-found"),
        (message(None), "amqp:invalid-field"),
        (message("q")[:-1], "amqp:decode-error"),
    ],
)
def test_a_settled_message_to_nowhere_ends_its_link(
    raw: Raw, payload: bytes, condition: str
) -> None:
    raw.say(relay())
    heard = raw.say(transfer(RELAY, 0, payload, settled=True))
    (detach,) = only(DETACH, heard)
    assert detach[1] is True
    assert described_error(detach[2]) == (condition, {"delivery-tag": b"tag 0"})


def test_an_unsettled_message_to_nowhere_is_rejected_by_its_tag(raw: Raw) -> None:
    raw.say(relay("amqp:accepted:list", "amqp:rejected:list"))
    heard = raw.say(
        transfer(RELAY, 0, message("q")),
        transfer(RELAY, 1, message("q")),  # of the shape that the last one had
        transfer(RELAY, 2, message(NOWHERE)),
    )
    assert error_of(answers(heard)[-1]) == ("amqp:not-found", {"delivery-tag": b"tag 2"})
    assert not only(DETACH, heard)


def test_a_link_that_knows_no_rejections_ends_instead(broker: Broker, raw: Raw) -> None:
    raw.say(relay("amqp:accepted:list"))
    heard = raw.say(transfer(RELAY, 0, message("q")), transfer(RELAY, 1, message(NOWHERE)))
    (detach,) = only(DETACH, heard)
    assert described_error(detach[2]) == ("amqp:not-found", {"delivery-tag": b"tag 1"})
    assert messages(broker, "q") == 1


def test_a_settled_message_that_cannot_be_read_ends_a_link_with_a_target_too(raw: Raw) -> None:
    raw.say(attach(0, section(TARGET, compound([string("q")]))))
    heard = raw.say(transfer(0, 0, message("q")[:-1], settled=True))
    assert [each.condition for each in heard if each.code == DETACH] == ["amqp:decode-error"]


def test_a_settled_message_to_a_full_queue_is_dropped_and_its_link_goes_on() -> None:
    broker = make_broker(queue=({"id": "q", "quota_messages": 1, "full_policy": "reject"},))
    raw = Raw(broker)
    raw.say(attach(0, section(TARGET, compound([string("q")]))))
    heard = raw.say(*[transferring(0, number, b"x", settled=True) for number in range(3)])
    assert not only(DETACH, heard)
    assert messages(broker, "q") == 1


# Sends in transactions.


@pytest.mark.parametrize("payload", [message(NOWHERE), message("q")[:-1]])
def test_a_commit_is_refused_if_a_settled_message_of_it_was_not_taken(
    broker: Broker, raw: Raw, payload: bytes
) -> None:
    raw.say(control(), relay())
    id = declare(raw, 0)
    heard = raw.say(
        transfer(RELAY, 1, message("q"), id=id, settled=True),
        transfer(RELAY, 2, payload, id=id, settled=True),
        transfer(RELAY, 3, message("q"), id=id, settled=True),
        discharge(4, id),
    )
    assert rolled_back(heard)
    assert not only(DETACH, heard)
    assert messages(broker, "q") == 0
    id = declare(raw, 5)
    raw.say(transfer(RELAY, 6, message("q"), id=id, settled=True), discharge(7, id))
    assert messages(broker, "q") == 1


def test_a_refused_message_of_a_transaction_is_rejected_in_it(broker: Broker, raw: Raw) -> None:
    raw.say(control(), relay())
    id = declare(raw, 0)
    heard = raw.say(
        transfer(RELAY, 1, message("q"), id=id), transfer(RELAY, 2, message(NOWHERE), id=id)
    )
    state = answers(heard)[-1]
    assert state.descriptor == TRANSACTIONAL and isinstance(state.value, list)
    assert state.value[0] == id
    assert error_of(state.value[1]) == ("amqp:not-found", {"delivery-tag": b"tag 2"})
    # Its sender was told, so it may commit the rest.
    assert answers(raw.say(discharge(3, id)))[0].descriptor == ACCEPTED
    assert messages(broker, "q") == 1


def test_a_commit_is_refused_if_a_link_that_knows_no_rejections_ended(
    broker: Broker, raw: Raw
) -> None:
    raw.say(control(), relay("amqp:accepted:list"))
    id = declare(raw, 0)
    heard = raw.say(
        transfer(RELAY, 1, message("q"), id=id), transfer(RELAY, 2, message(NOWHERE), id=id)
    )
    assert [each.condition for each in heard if each.code == DETACH] == ["amqp:not-found"]
    assert rolled_back(raw.say(discharge(3, id)))
    assert messages(broker, "q") == 0


def test_a_commit_is_refused_if_a_message_came_on_a_link_that_had_ended(
    broker: Broker, raw: Raw
) -> None:
    raw.say(control(), relay())
    id = declare(raw, 0)
    raw.say(transfer(RELAY, 1, message(NOWHERE), settled=True))
    heard = raw.say(transfer(RELAY, 2, message("q"), id=id, settled=True), discharge(3, id))
    assert rolled_back(heard)


def test_a_rollback_of_a_transaction_that_failed_is_accepted(raw: Raw) -> None:
    raw.say(control(), relay())
    id = declare(raw, 0)
    raw.say(transfer(RELAY, 1, message(NOWHERE), id=id, settled=True))
    assert answers(raw.say(discharge(2, id, fail=True)))[0].descriptor == ACCEPTED


@pytest.mark.parametrize("is_known", [True, False])
def test_a_coordinator_that_cannot_reject_ends_its_link(raw: Raw, is_known: bool) -> None:
    raw.say(control("amqp:accepted:list"), relay())
    id = declare(raw, 0)
    raw.say(transfer(RELAY, 1, message(NOWHERE), id=id, settled=True))
    heard = raw.say(discharge(2, id if is_known else b"none"))
    condition = "amqp:transaction:rollback" if is_known else "amqp:transaction:unknown-id"
    assert [each.condition for each in heard if each.code == DETACH] == [condition]


# Settlements in transactions.


def with_two(broker: Broker, raw: Raw) -> bytes:
    """Have a reader hold two messages, and begin a transaction."""
    raw.say(control(), relay())
    raw.say(*[transfer(RELAY, number, message("q"), settled=True) for number in range(2)])
    raw.say(READER)
    assert len(only(TRANSFER, raw.say(granting(1)))) == 2
    return declare(raw, 2)


def test_a_settlement_after_the_detach_of_its_link_refuses_the_commit(
    broker: Broker, raw: Raw
) -> None:
    id = with_two(broker, raw)
    raw.say(settling(0, 0, id))
    heard = raw.say(says(DETACH, uint(1), FALSE), settling(1, 1, id), discharge(3, id))
    assert rolled_back(heard)
    assert messages(broker, "q") == 2


def test_a_settlement_of_a_delivery_that_never_was_refuses_the_commit(
    broker: Broker, raw: Raw
) -> None:
    id = with_two(broker, raw)
    assert rolled_back(raw.say(settling(0, 0, id), settling(7, 7, id), discharge(3, id)))
    assert messages(broker, "q") == 2


def test_a_settlement_of_what_is_settled_already_refuses_the_commit(
    broker: Broker, raw: Raw
) -> None:
    id = with_two(broker, raw)
    accepted = section(ACCEPTED, compound([]))
    raw.say(says(DISPOSITION, TRUE, uint(0), uint(0), TRUE, accepted))
    assert rolled_back(raw.say(settling(0, 1, id), discharge(3, id)))
    assert messages(broker, "q") == 1


def test_a_settlement_of_what_its_queue_lost_refuses_the_commit(broker: Broker, raw: Raw) -> None:
    id = with_two(broker, raw)
    broker.host.delete_queue("q", "gone")
    assert rolled_back(raw.say(settling(0, 1, id), discharge(3, id)))


def test_a_delivery_is_settled_in_one_transaction_only(broker: Broker, raw: Raw) -> None:
    id = with_two(broker, raw)
    other = declare(raw, 3)
    unsettled = settling(0, 0, id).replace(b"\x43\x43\x41", b"\x43\x43\x42")
    raw.say(unsettled, settling(0, 0, other))
    assert rolled_back(raw.say(discharge(4, other)))
    assert answers(raw.say(discharge(5, id)))[-1].descriptor == ACCEPTED
    assert messages(broker, "q") == 1


def test_a_delivery_may_be_settled_after_its_outcome_was_told(broker: Broker, raw: Raw) -> None:
    id = with_two(broker, raw)
    unsettled = settling(0, 0, id).replace(b"\x43\x43\x41", b"\x43\x43\x42")
    raw.say(unsettled, settling(0, 0, id))
    assert answers(raw.say(discharge(3, id)))[-1].descriptor == ACCEPTED
    assert messages(broker, "q") == 1


def test_two_outcomes_of_one_delivery_refuse_the_commit(broker: Broker, raw: Raw) -> None:
    id = with_two(broker, raw)
    unsettled = settling(0, 0, id).replace(b"\x43\x43\x41", b"\x43\x43\x42")
    raw.say(unsettled, settling(0, 0, id, outcome=REJECTED))
    assert rolled_back(raw.say(discharge(3, id)))
    assert messages(broker, "q") == 2
