"""Values: we read what proton writes, proton reads what we write, strangers are checked."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import (
    Array,
    Data,
    Described,
    byte,
    char,
    decimal64,
    int32,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton import float32 as single
from proton import short as int16

from covey.core.errors import ProtocolError, RefusedError
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import DEPTH_MAX, VALUES_MAX, Checker
from covey.protocols.amqp.codec.decoder import Described as OurDescribed
from covey.protocols.amqp.codec.decoder import decode, pick
from covey.protocols.amqp.codec.types import skip

NUMBER = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


def by_proton(value: object) -> bytes:
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def read(encoded: bytes) -> object:
    """Check and decode; both must end at the end."""
    assert Checker(encoded).check(0) == len(encoded)
    assert skip(encoded, 0) == len(encoded)
    return decode(encoded)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (False, False),
        *[(kind(7), 7) for kind in (ubyte, byte, ushort, int16, uint, int32, ulong, timestamp)],
        *[(kind(-7), -7) for kind in (byte, int16, int32, int, timestamp)],
        *[(kind(0), 0) for kind in (uint, ulong)],
        (2**40, 2**40),
        (ulong(2**64 - 1), 2**64 - 1),
        (1.5, 1.5),
        (single(1.5), 1.5),
        (char("é"), "é"),
        (NUMBER, NUMBER),
        (decimal64(1), b"\0\0\0\0\0\0\0\x01"),
        ("grüße", "grüße"),
        ("x" * 300, "x" * 300),
        (symbol("s"), "s"),
        (b"\xff\0", b"\xff\0"),
        (b"\xff" * 300, b"\xff" * 300),
        ([], []),
        ([1, ["a", None]], [1, ["a", None]]),
        ({"k": [1], symbol("s"): {"n": True}}, {"k": [1], "s": {"n": True}}),
        (["x" * 200, "y" * 200], ["x" * 200, "y" * 200]),
        (Array(None, Data.SYMBOL, symbol("a"), symbol("bc")), ["a", "bc"]),
        (Array(None, Data.INT, 1, 2, 3), [1, 2, 3]),
        (Array(symbol("d"), Data.STRING, "x"), ["x"]),
    ],
)
def test_what_proton_writes_is_read(value: object, expected: object) -> None:
    assert read(by_proton(value)) == expected


def test_a_described_value_keeps_its_descriptor() -> None:
    found = read(by_proton(Described(symbol("d"), [1])))
    assert isinstance(found, OurDescribed)
    assert (found.descriptor, found.value) == ("d", [1])


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.uuids()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert read(encoder.value(value)) == value


def test_proton_reads_what_is_written() -> None:
    value = {"list": [1, -1, 200, -(2**40), 2**63, 1.5, "é" * 200], "map": {"b": True}, "n": None}
    data = Data()
    data.decode(encoder.value(value))
    data.rewind()
    data.next()
    assert data.get_object() == value


@pytest.mark.parametrize(
    ("value", "expected"), [(2**64, str(2**64)), (-(2**63) - 1, str(-(2**63) - 1)), ("\ud800", "?")]
)
def test_what_has_no_type_goes_as_the_nearest(value: object, expected: object) -> None:
    assert read(encoder.value(value)) == expected


def test_pick_passes_over_what_is_not_asked_for() -> None:
    encoded = by_proton({"a": [1, 2], 5: "five", "b": "x" * 300, "c": {"a": 1}})
    assert pick(encoded, 0, frozenset((b"b", b"five", b"nowhere"))) == {"b": "x" * 300}


def nested_lists(depth: int) -> bytes:
    encoded = b"\x45"
    for _ in range(depth - 1):
        encoded = b"\xd0" + (len(encoded) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + encoded
    return encoded


def nested_arrays(depth: int) -> bytes:
    content = b"\0\0\0\x05\0\0\0\0\x45"  # no elements
    for _ in range(depth - 1):
        content = (len(content) + 5).to_bytes(4, "big") + b"\0\0\0\x01\xf0" + content
    return b"\xf0" + content


@pytest.mark.parametrize("depth", [10, DEPTH_MAX])
def test_nesting_is_followed_to_the_limit(depth: int) -> None:
    read(nested_lists(depth))
    read(nested_arrays(depth))
    read(b"\0\x53\x01" * depth + b"\x40")


@pytest.mark.parametrize("depth", [DEPTH_MAX + 2, 500, 10_000])
def test_deeper_nesting_is_refused(depth: int) -> None:
    chains = [nested_lists(depth), nested_arrays(depth), b"\0\x53\x01" * depth + b"\x40"]
    chains.append(b"\0" * depth + b"\x40" * (depth + 1))  # descriptors that are described
    for encoded in chains:
        with pytest.raises(ProtocolError, match="nested") as caught:
            Checker(encoded).check(0)
        assert caught.value.code == "decode-error"


def test_a_hundred_thousand_open_lists_are_refused() -> None:
    opened = b"".join(
        b"\xd0" + (9 * left + 4).to_bytes(4, "big") + b"\0\0\0\x01"
        for left in range(100_000, 0, -1)
    )
    with pytest.raises(ProtocolError):
        Checker(opened + b"\x40" * 9).check(0)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x00",
        b"\x00\x53",
        b"\x3f",  # no such code
        b"\x57\x00",
        b"\x71\0\0\0",  # cut short
        b"\x98" + b"\0" * 15,
        b"\x56\x02",  # neither true nor false
        b"\x73\x00\x11\x00\x00",  # beyond Unicode
        b"\x73\x00\x00\xd8\x00",  # a surrogate
        b"\xa1\x02a",
        b"\xb1\xff\xff\xff\xffa",
        b"\xa1\x01\xff",  # not UTF-8
        b"\xa1\x03\xed\xa0\x80",  # a surrogate in UTF-8
        b"\xa3\x02\xc3\xa9",  # a symbol with an umlaut
        b"\xc0\x00\x00",  # a size that does not hold the count
        b"\xc0\x01\x01",  # fewer items than counted
        b"\xc0\x02\x00\x40",  # more items than counted
        b"\xc0\x02\x01\x71\0\0\0\0",  # an item beyond its list
        b"\xd0\xff\xff\xff\xff\0\0\0\x01\x40",
        b"\xd0\0\0\0\x03\0\0\0\x00",
        b"\xc1\x02\x01\x40",  # a key without a value
        b"\xc1\x03\x02\x45\x40",  # a list as a key
        b"\xc1\x05\x02\x00\x40\x40\x40",  # a described key
        b"\xe0\x02\x01\x40",  # elements without width
        b"\xe0\x02\xff\x45",
        b"\xf0\0\0\0\x05\xff\xff\xff\xff\x40",
        b"\xf0\0\0\0\x05\x7f\xff\xff\xff\x41",
        b"\xe0\x03\x01\x71\x00",
        b"\xe0\x03\x01\x56\x02",
        b"\xe0\x01\x00",
    ],
)
def test_bad_values_are_malformed(encoded: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        Checker(encoded).check(0)
    assert caught.value.code == "decode-error"


def test_too_many_values_are_refused_and_a_long_array_of_numbers_is_not() -> None:
    values = encoder.packed(b"\x40" * (VALUES_MAX + 1), VALUES_MAX + 1)
    with pytest.raises(RefusedError) as caught:
        Checker(values).check(0)
    assert caught.value.code == "limit"
    Checker(encoder.packed(b"\x40" * VALUES_MAX, VALUES_MAX)).check(0)
    count = VALUES_MAX + 1
    bytes_array = b"\xf0" + (count + 5).to_bytes(4, "big") + count.to_bytes(4, "big") + b"\x50"
    Checker(bytes_array + b"\x07" * count).check(0)


def test_a_value_cut_short_anywhere_is_malformed() -> None:
    whole = by_proton({"k": [1, "é", b"b", 1.5, NUMBER], "a": Array(None, Data.INT, 1, 2)})
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            Checker(whole[:cut]).check(0)


def test_descriptors_of_descriptors_are_passed_over_however_deep_they_nest() -> None:
    deep = 1_000_000  # a C stack has no room for so many calls
    assert skip(bytes(deep) + encoder.NULL * (deep + 1), 0) == 2 * deep + 1
    with pytest.raises(IndexError):
        skip(bytes(deep), 0)
