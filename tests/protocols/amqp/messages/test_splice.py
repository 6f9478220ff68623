"""Splice: what only the broker may say is taken out of what producers say."""

from __future__ import annotations

import pytest
from proton import symbol

from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.splice import OWN_ANNOTATIONS
from tests.protocols.amqp.messages.test_message import delivered, made


@pytest.mark.parametrize("name", OWN_ANNOTATIONS)
def test_a_producer_cannot_annotate_in_the_name_of_the_broker(name: str) -> None:
    notes = {symbol("x-opt-a"): 1, symbol(name): "forged"}
    forged = made(ttl=5, annotations=notes, instructions={symbol("x"): 1}, id="1")
    honest = made(ttl=5, annotations={symbol("x-opt-a"): 1}, id="1")
    for message in (forged, AmqpMessage.restore(*forged.encode())):
        assert delivered(message).annotations == {symbol("x-opt-a"): 1}
        assert message.neutral() == honest.neutral()
        assert message.expires_ms == honest.expires_ms
    bare = forged.data[forged.sections.bare_start :]
    assert bare == honest.data[honest.sections.bare_start :]


def test_a_name_of_the_broker_inside_a_value_passes() -> None:
    notes = {symbol("x-opt-a"): "x-opt-dead-letter-reason"}
    assert delivered(made(annotations=notes)).annotations == notes


def test_a_forged_first_property_does_not_pass_where_the_broker_sets_it() -> None:
    forged = {"a": 1, "JMSXGroupFirstForConsumer": True}
    message = made(properties=forged)
    assert delivered(message, group_first_property=True).properties == {"a": 1}
    assert delivered(message).properties == forged  # the option is off: the bare message is theirs
