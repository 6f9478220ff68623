"""The section scanner: proton's messages, every fault by name, and anything at all."""

from __future__ import annotations

from random import Random

import proton
import pytest
from proton import Array, Data, symbol, ulong

from covey.core.errors import ProtocolError, RefusedError
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import DEPTH_MAX
from covey.protocols.amqp.codec.decoder import decode, decode_map, text_at
from covey.protocols.amqp.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    GROUP_ID,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    TO,
    VALUE,
    scan,
)

EMPTY_MAP = encoder.packed(b"", 0, is_map=True)
CONTENT = {
    HEADER: b"\x45",
    DELIVERY_ANNOTATIONS: EMPTY_MAP,
    MESSAGE_ANNOTATIONS: EMPTY_MAP,
    PROPERTIES: b"\x45",
    APPLICATION_PROPERTIES: EMPTY_MAP,
    DATA: b"\xa0\x01x",
    SEQUENCE: b"\x45",
    VALUE: b"\x40",
    FOOTER: EMPTY_MAP,
}


def made_of(*codes: int) -> bytes:
    return b"".join(encoder.section(code, CONTENT[code]) for code in codes)


def full() -> bytes:
    """A message in which proton has set everything."""
    message = proton.Message(
        body={"k": [1, "é", b"x", {"n": 1.5}]},
        durable=True,
        priority=7,
        ttl=60,
        id=ulong(5),
        user_id=b"me",
        address="queue",
        subject="subject",
        reply_to="back",
        correlation_id="c-1",
        content_type="text/x",
        content_encoding="gzip",
        expiry_time=2_000_000,
        creation_time=1_000_000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="other",
        instructions={symbol("x-opt-hop"): 1},
        annotations={symbol("x-opt-note"): "n", symbol("x-opt-list"): [1, 2]},
        properties={"text": "t", "number": 5, "array": Array(None, Data.INT, 1, 2)},
    )
    return bytes(message.encode())


def refused(data: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        scan(data)
    assert caught.value.code == "decode-error"
    return caught.value.text


def test_every_section_of_a_full_message_is_found() -> None:
    data = full()
    found = scan(data)
    assert [data[at] for at in found.header] == [0x41, 0x50, 0x70]
    assert decode_map(data, found.delivery_annotations) == {"x-opt-hop": 1}
    assert decode_map(data, found.message_annotations)["x-opt-note"] == "n"
    assert text_at(data, found.properties[TO]) == "queue"
    assert text_at(data, found.properties[GROUP_ID]) == "group"
    assert decode_map(data, found.application_properties)["number"] == 5
    assert found.body_kind == VALUE
    assert decode(data, found.body) == {"k": [1, "é", b"x", {"n": 1.5}]}
    assert data[found.bare_start :].startswith(b"\x00\x53\x73")
    assert data[found.properties_end :].startswith(b"\x00\x53\x74")
    assert data[found.body_start :].startswith(b"\x00\x53\x77")


def test_a_message_cut_short_anywhere_inside_a_section_is_refused() -> None:
    data = full()
    starts = {at for at in range(len(data)) if data[at : at + 2] == b"\x00\x53"}
    for cut in range(len(data)):
        if cut not in starts:
            assert refused(data[:cut])


def test_sizes_count_content_only() -> None:
    assert scan(made_of(DATA, DATA)).body_size == 2
    assert scan(encoder.section(VALUE, encoder.string("é" * 300))).body_size == 600
    assert scan(encoder.section(VALUE, encoder.value([1, 2]))).body_size == 7


def test_a_footer_is_not_part_of_the_body() -> None:
    data = made_of(HEADER, DATA, DATA, FOOTER)
    found = scan(data)
    assert found.footer == len(data) - len(EMPTY_MAP)
    assert (found.body_kind, found.body_size) == (DATA, 2)


def test_a_missing_body_is_taken_and_an_empty_message_is_not() -> None:
    data = made_of(HEADER)
    assert scan(data).body_kind == 0
    assert scan(data).body_start == len(data)
    assert "without a single byte" in refused(b"")


@pytest.mark.parametrize("code", [code for code in CONTENT if code not in (DATA, SEQUENCE)])
def test_a_doubled_section_is_refused(code: int) -> None:
    assert "twice" in refused(made_of(code, code))


@pytest.mark.parametrize("first", CONTENT)
@pytest.mark.parametrize("second", CONTENT)
def test_sections_out_of_order_are_refused(first: int, second: int) -> None:
    bodies = (DATA, SEQUENCE, VALUE)
    if second < first or (second != first and first in bodies and second in bodies):
        assert "behind" in refused(made_of(first, second))
    elif second != first:
        scan(made_of(first, second))


@pytest.mark.parametrize(
    "data",
    [
        b"\x40",
        b"hello",
        b"\x00\x53\x6f\x45",  # before the first
        b"\x00\x53\x79\x45",  # behind the last
        b"\x00\x40\x45",
        b"\x00\xa3\x03abc\x45",
        b"\x00\x80\0\0\0\1\0\0\0\x70\x45",
        encoder.section(HEADER, EMPTY_MAP),
        encoder.section(HEADER, b"\x40"),
        encoder.section(HEADER, encoder.compound([encoder.string("yes")])),
        encoder.section(HEADER, encoder.compound([b"\x40"] * 6)),
        encoder.section(PROPERTIES, encoder.compound([b"\x40"] * 14)),
        encoder.section(PROPERTIES, encoder.compound([b"\x45"])),
        encoder.section(PROPERTIES, encoder.compound([b"\x40"] * 10 + [b"\x43"])),
        encoder.section(PROPERTIES, encoder.compound([b"\x40"] * 10 + [b"\xa1\x01\xff"])),
        encoder.section(PROPERTIES, b"\xc0\x03\x01\xa1\x05"),
        encoder.section(PROPERTIES, b"\xc0\x03\x01\x40\x40"),
        encoder.section(APPLICATION_PROPERTIES, b"\x45"),
        encoder.section(APPLICATION_PROPERTIES, b"\xc1\x06\x02\xa1\x01\xff\xa1\x00"),
        encoder.section(DATA, b"\xa1\x01x"),
        encoder.section(DATA, b"\x40"),
        encoder.section(SEQUENCE, b"\xa0\x01x"),
        encoder.section(SEQUENCE, EMPTY_MAP),
        encoder.section(VALUE, b"\xa1\x01\xff"),
        encoder.section(VALUE, b"\xf0\0\0\0\x05\xff\xff\xff\xff\x40"),
        encoder.section(VALUE, b"\0\x53\x01" * 100_000 + b"\x40"),
        encoder.section(FOOTER, b"\x45"),
    ],
)
def test_malformed_sections_are_refused(data: bytes) -> None:
    assert refused(data)


@pytest.mark.parametrize("depth", [10, DEPTH_MAX, 100, 500, 10_000, 100_000])
def test_a_body_is_nested_within_the_limit_only(depth: int) -> None:
    data = encoder.section(VALUE, b"\0\x53\x01" * depth + b"\x40")
    if depth <= DEPTH_MAX:
        scan(data)
    else:
        assert "nested" in refused(data)


@pytest.mark.parametrize(
    "descriptor", [b"\x80\0\0\0\0\0\0\0\x77", b"\xa3\x0camqp:value:*", b"\xa3\x11amqp:amqp-value:*"]
)
def test_descriptors_may_be_long_or_written_out(descriptor: bytes) -> None:
    data = b"\x00" + descriptor + b"\xa0\x01x"
    if b"amqp:value" in descriptor:
        assert refused(data)  # not the name the specification gives
    else:
        assert scan(data).body_kind == VALUE


def mutated(seed: bytes, random: Random) -> bytes:
    data = bytearray(seed)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(data))
        kind = random.choice((0, 0, 0, 1, 2, 3))
        if kind == 0:
            data[at] = random.randrange(256)
        elif kind == 1:
            data[at] = random.choice(b"\x00\x40\x45\x53\xa0\xa1\xb1\xc0\xc1\xd0\xd1\xe0\xf0\xff")
        elif kind == 2:
            del data[at : at + random.randint(1, 4)]
            data = data or bytearray(b"\0")
        else:
            data[at:at] = data[random.randrange(len(data)) :][: random.randint(1, 12)]
    return bytes(data)


def test_mutated_messages_are_scanned_or_refused() -> None:
    random = Random(1)
    seeds = [full(), made_of(*[code for code in CONTENT if code not in (DATA, VALUE)])]
    seeds.append(made_of(HEADER, PROPERTIES, DATA, DATA, FOOTER))
    taken = 0
    for _ in range(20_000):
        try:
            scan(mutated(random.choice(seeds), random))
            taken += 1
        except (ProtocolError, RefusedError):
            pass
    assert 1_000 < taken < 19_000  # both answers were really met
