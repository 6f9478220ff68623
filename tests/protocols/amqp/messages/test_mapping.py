"""The mapping: ids, bodies and fields, neutral to AMQP and back; proton as the judge."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Array, Data, symbol, ulong
from proton import timestamp as proton_timestamp

from covey.core.model.message import Neutral
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.decoder import decode
from covey.protocols.amqp.messages.bodies import JSON_SOURCE_BYTES_MAX, encode_id, id_text
from covey.protocols.amqp.messages.mapping import encode_neutral
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.sections import DATA, FOOTER, SEQUENCE, VALUE, scan

NOW_MS = 1_700_000_000_000
NUMBER = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


def neutral_of(data: bytes) -> Neutral:
    return AmqpMessage.decode(data, NOW_MS).neutral()


def from_proton(body: Any = b"", **fields: object) -> Neutral:
    return neutral_of(bytes(proton.Message(body=body, **fields).encode()))


def by_proton(neutral: Neutral) -> proton.Message:
    message = proton.Message()
    message.decode(encode_neutral(neutral, wall_ms=NOW_MS))
    return message


def there_and_back(neutral: Neutral) -> Neutral:
    return neutral_of(encode_neutral(neutral, wall_ms=NOW_MS))


# Ids.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (ulong(7), "ulong:7"),
        (ulong(0), "ulong:0"),
        (ulong(2**64 - 1), f"ulong:{2**64 - 1}"),
        (NUMBER, f"uuid:{NUMBER}"),
        (b"\x0a\xff", "binary:0aff"),
        ("ulong:7", "string:ulong:7"),
        ("string:ulong:7", "string:string:ulong:7"),
        ("string:x", "string:x"),
        ("ulong:007", "ulong:007"),
        ("uuid:nonsense", "uuid:nonsense"),
        ("binary:0AFF", "binary:0AFF"),
    ],
)
def test_typed_ids_have_a_text_of_their_own(value: object, text: str) -> None:
    assert from_proton(id=value, correlation_id=value).message_id == text
    back = by_proton(Neutral(message_id=text, correlation_id=text))
    found = [bytes(i) if isinstance(i, memoryview) else i for i in (back.id, back.correlation_id)]
    assert found == [value, value]


NUMBERS_AS_TEXT = st.integers(-5, 2**65).map(str)
ID_TEXTS = st.builds(
    lambda before, middle, last: "string:" * before + middle + last,
    st.integers(0, 3),
    st.sampled_from(("", "ulong:", "uuid:", "binary:", "string", "ulong")),
    st.text() | NUMBERS_AS_TEXT | st.uuids().map(str) | st.binary(max_size=4).map(bytes.hex),
)


@given(ID_TEXTS)
def test_every_text_is_one_id(text: str) -> None:
    assert id_text(decode(encode_id(text))) == text


@given(st.text() | st.integers(0, 2**64 - 1) | st.uuids() | st.binary())
def test_every_id_has_one_text(value: str | int | UUID | bytes) -> None:
    found = decode(encode_id(id_text(value)))
    assert (type(found), found) == (type(value), value)


def test_an_id_of_many_prefixes_is_read_in_one_go() -> None:
    text = "string:" * 100_000 + "ulong:7"
    assert id_text(decode(encode_id(text))) == text


# Bodies.


@pytest.mark.parametrize(
    ("body", "kind", "shape", "expected"),
    [
        ("grüße", "text", "string", "grüße".encode()),
        (symbol("s"), "text", "string", b"s"),
        (b"\xff", "data", "binary", b"\xff"),
        ({"k": [1, None]}, "json", "map", b'{"k": [1, null]}'),
        ({5: "a", True: "b", 0.5: "c"}, "json", "map", b'{"5": "a", "true": "b", "0.5": "c"}'),
        ([1, "é", b"\x0a", NUMBER], "json", "list", None),
        (Array(None, Data.INT, 1, 2), "json", "list", b"[1, 2]"),
        (5, "json", "value", b"5"),
        (True, "json", "value", b"true"),
        (float("inf"), "json", "value", b'"inf"'),
        (proton_timestamp(5), "json", "value", b"5"),
        (proton.Described(symbol("d"), "x"), "text", "string", b"x"),
    ],
)
def test_values_become_text_bytes_or_json(
    body: object, kind: str, shape: str, expected: bytes | None
) -> None:
    neutral = from_proton(body)
    assert (neutral.body_kind, neutral.body_shape) == (kind, shape)
    if expected is not None:
        assert neutral.body == expected
    if kind == "json":
        json.loads(neutral.body)


def test_json_says_bytes_and_uuids_as_ids_do() -> None:
    found = json.loads(from_proton([b"\x0a", NUMBER]).body)
    assert found == ["binary:0a", f"uuid:{NUMBER}"]


def test_data_sections_are_joined_and_the_footer_is_not() -> None:
    parts = [encoder.section(DATA, encoder.binary(part)) for part in (b"one", b"", b"two" * 100)]
    data = b"".join(parts) + encoder.section(FOOTER, b"\xc1\x01\x00")
    neutral = neutral_of(data)
    assert (neutral.body, neutral.body_kind) == (b"one" + b"two" * 100, "data")


def test_sequences_are_joined_into_one_list() -> None:
    data = b"".join(encoder.section(SEQUENCE, encoder.value([n, "é"])) for n in (1, 2))
    neutral = neutral_of(data)
    assert (neutral.body_kind, neutral.body_shape) == ("json", "sequence")
    assert json.loads(neutral.body) == [1, "é", 2, "é"]


def test_null_and_no_body_at_all_are_empty() -> None:
    null = neutral_of(encoder.section(VALUE, encoder.NULL))
    assert (null.body, null.body_kind, null.body_shape) == (b"", "data", "null")
    nothing = from_proton(None)  # proton leaves the body out
    assert (nothing.body, nothing.body_kind, nothing.body_shape) == (b"", "data", "")


@pytest.mark.parametrize("code", [VALUE, SEQUENCE])
def test_a_body_too_large_for_json_is_handed_on_encoded(code: int) -> None:
    section = encoder.section(code, encoder.value(["x" * JSON_SOURCE_BYTES_MAX]))
    neutral = neutral_of(section + encoder.section(FOOTER, b"\xc1\x01\x00"))
    assert (neutral.body_kind, neutral.content_type) == ("data", "application/amqp")
    assert neutral.body == section


def test_a_large_text_stays_text() -> None:
    assert from_proton("x" * (JSON_SOURCE_BYTES_MAX + 1)).body_kind == "text"


@pytest.mark.parametrize(
    ("neutral", "section"),
    [
        (Neutral(body=b"x"), encoder.section(DATA, b"\xa0\x01x")),
        (Neutral(), encoder.section(DATA, b"\xa0\x00")),
        (Neutral(body=b"x", body_kind="text"), encoder.section(VALUE, b"\xa1\x01x")),
        (Neutral(body=b"\xff", body_kind="text"), encoder.section(DATA, b"\xa0\x01\xff")),
        (Neutral(body=b"x", body_shape="binary"), encoder.section(VALUE, b"\xa0\x01x")),
        (Neutral(body_shape="null"), encoder.section(VALUE, b"\x40")),
    ],
)
def test_a_body_goes_as_its_kind_and_shape_say(neutral: Neutral, section: bytes) -> None:
    assert encode_neutral(neutral, wall_ms=NOW_MS).endswith(section)


@pytest.mark.parametrize(
    ("body", "shape", "kind"),
    [
        (b'{"k": [1, "x", null, true, 1.5]}', "map", VALUE),
        (b"[1]", "list", VALUE),
        (b"[1]", "sequence", SEQUENCE),
        (b"5", "value", VALUE),
        (b"[1]", "map", DATA),
        (b'{"k": 1}', "list", DATA),
        (b'{"k": 1}', "value", DATA),
        (b'{"k": 1}', "nonsense", DATA),
        (b"{", "map", DATA),
        (b"\xff", "map", DATA),
        (b'{"k": "\\ud800"}', "map", VALUE),
        (b'{"k": ' + b"9" * 100 + b"}", "map", VALUE),
        (b'{"k": ' + b"9" * 5000 + b"}", "map", DATA),
        (b"[" * 60 + b"]" * 60, "list", VALUE),
        (b"[" * 70 + b"]" * 70, "list", DATA),
        (b"[" * 100_000 + b"]" * 100_000, "list", DATA),
    ],
)
def test_json_is_restored_if_it_fits_its_shape(body: bytes, shape: str, kind: int) -> None:
    payload = encode_neutral(Neutral(body=body, body_kind="json", body_shape=shape), wall_ms=NOW_MS)
    assert scan(payload).body_kind == kind
    by_proton(Neutral(body=body, body_kind="json", body_shape=shape))


# Fields.


def test_every_field_of_an_amqp_message_has_its_neutral_place() -> None:
    neutral = from_proton(
        "x",
        durable=True,
        priority=200,
        expiry_time=2_000_000_000,
        creation_time=1_000_000,
        user_id=b"me",
        address="to",
        subject="subject",
        reply_to="back",
        content_type="text/x",
        content_encoding="gzip",
        group_id="g",
        group_sequence=2**32 - 1,
        properties={"t": "x", "n": 5, "b": True, "u": NUMBER, "raw": b"r", "l": [1], "none": None},
    )
    assert neutral == Neutral(
        body=b"x",
        body_kind="text",
        body_shape="string",
        persistent=True,
        priority=9,
        expires_ms=2_000_000_000_000,
        created_ms=1_000_000_000,
        user_id="me",
        to="to",
        subject="subject",
        reply_to="back",
        content_type="text/x",
        content_encoding="gzip",
        group_id="g",
        group_sequence=-1,
        properties={"t": "x", "n": 5, "b": True, "u": str(NUMBER)},
    )


def test_properties_that_name_the_group_are_the_group() -> None:
    neutral = from_proton(properties={"JMSXGroupID": "a", "JMSXGroupSeq": 2, "k": "v"})
    assert (neutral.group_id, neutral.group_sequence, neutral.properties) == ("a", 2, {"k": "v"})


def test_every_neutral_field_reaches_proton() -> None:
    message = by_proton(
        Neutral(
            body=b"x",
            message_id="m",
            correlation_id="c",
            reply_to="back",
            to="to",
            subject="subject",
            content_type="text/é",
            content_encoding="gzip",
            group_id="g",
            group_sequence=-1,
            user_id="me",
            created_ms=1_000_000,
            expires_ms=NOW_MS + 5000,
            priority=77,
            persistent=True,
            properties={"t": "x", "n": -5, "long": 2**40, "f": 0.5, "b": False, "none": None},
        )
    )
    assert (message.id, message.correlation_id, message.reply_to) == ("m", "c", "back")
    assert (message.address, message.subject) == ("to", "subject")
    assert (message.content_type, message.content_encoding) == ("text/?", "gzip")
    assert (message.group_id, message.group_sequence) == ("g", 2**32 - 1)
    assert bytes(message.user_id) == b"me"
    assert (message.creation_time, message.expiry_time) == (1000.0, (NOW_MS + 5000) / 1000)
    assert (message.ttl, message.priority, message.durable) == (5.0, 9, True)
    assert message.properties == {"t": "x", "n": -5, "long": 2**40, "f": 0.5, "b": False}


def test_a_group_sequence_that_is_too_large_does_not_close_the_group() -> None:
    assert by_proton(Neutral(group_sequence=2**40)).group_sequence == 2**31 - 1
    assert by_proton(Neutral(group_sequence=-(2**40))).group_sequence == 2**31


def test_first_for_consumer_is_said_of_a_neutral_message_too() -> None:
    payload = encode_neutral(
        Neutral(properties={"JMSXGroupFirstForConsumer": "forged"}),
        wall_ms=NOW_MS,
        deliveries=2,
        is_first=True,
        group_first_property=True,
    )
    message = proton.Message()
    message.decode(payload)
    assert message.annotations == {"x-opt-group-first-for-consumer": True}
    assert message.properties == {"JMSXGroupFirstForConsumer": True}
    assert (message.delivery_count, message.first_acquirer) == (2, False)


ASCII = st.text(st.characters(max_codepoint=127))
TIMES = st.just(0) | st.integers(NOW_MS, 2**52)
NAMES = st.text().filter(lambda name: not name.startswith("JMSX") and name != "message_group")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
BODIES = (
    st.binary().map(lambda body: (body, "data", ""))
    | st.binary().map(lambda body: (body, "data", "binary"))
    | st.text().map(lambda text: (text.encode(), "text", "string"))
    | st.just((b"", "data", "null"))
    | st.dictionaries(st.text(), JSON).map(lambda value: (json_bytes(value), "json", "map"))
    | st.lists(JSON).map(lambda value: (json_bytes(value), "json", "list"))
    | st.lists(JSON).map(lambda value: (json_bytes(value), "json", "sequence"))
)
NEUTRALS = st.builds(
    Neutral,
    message_id=st.text(),
    correlation_id=ID_TEXTS,
    reply_to=st.text(),
    to=st.text(),
    subject=st.text(),
    content_type=ASCII,
    content_encoding=ASCII,
    group_id=st.text(max_size=200),
    group_sequence=st.integers(-(2**31), 2**31 - 1),
    user_id=st.text(),
    created_ms=TIMES,
    expires_ms=TIMES,
    priority=st.integers(0, 9),
    persistent=st.booleans(),
    properties=st.dictionaries(
        NAMES, st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9)
    ),
)


def json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@given(NEUTRALS, BODIES)
def test_a_neutral_message_comes_back_as_it_was(
    neutral: Neutral, body: tuple[bytes, str, str]
) -> None:
    neutral.body, neutral.body_kind, neutral.body_shape = body
    assert there_and_back(neutral) == neutral
