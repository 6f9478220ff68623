"""GroupKey: one resolver for all the ways a client can name a group."""

from __future__ import annotations

import pytest

from covey.groups.key import GROUP_ID_BYTES_MAX, GroupIdError, GroupKey, Value


def resolve(
    key: GroupKey, headers: dict[str, Value] | None = None, native: str | None = None
) -> str:
    return key.resolve(native, (headers or {}).get)


@pytest.mark.parametrize("header", ["message_group", "JMSXGroupID", "JMSXGroupId"])
def test_each_of_the_usual_headers_names_the_group(header: str) -> None:
    assert resolve(GroupKey(), {header: "IBM_NASDAQ_20/4/05"}) == "IBM_NASDAQ_20/4/05"


def test_the_first_that_is_not_empty_wins() -> None:
    headers: dict[str, Value] = {"message_group": "a", "JMSXGroupID": "b", "JMSXGroupId": "c"}
    assert resolve(GroupKey(), headers, "n") == "n"
    assert resolve(GroupKey(), headers, "") == "a"
    assert resolve(GroupKey(), {**headers, "message_group": ""}) == "b"
    assert resolve(GroupKey(), {"JMSXGroupId": "c", "JMSXGroupID": None}) == "c"


def test_a_configured_header_is_the_only_one_looked_at() -> None:
    key = GroupKey("GROUP_KEY")
    assert resolve(key, {"GROUP_KEY": "cart", "message_group": "other"}, "native") == "cart"
    assert resolve(key, {"message_group": "other"}, "native") == ""


@pytest.mark.parametrize("missing", [None, ""])
def test_a_message_without_an_id_is_in_the_default_group(missing: str | None) -> None:
    assert resolve(GroupKey("K", "qpid.no-group"), {"K": missing}) == "qpid.no-group"
    assert resolve(GroupKey(None, "EMPTY-GROUP"), {"message_group": missing}) == "EMPTY-GROUP"


def test_without_a_default_group_it_is_in_none() -> None:
    assert resolve(GroupKey()) == ""
    assert resolve(GroupKey("K")) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (-7, "-7"), (True, "true"), (False, "false"), (1.5, "1.5")]
)
def test_numbers_and_booleans_become_text(value: Value, text: str) -> None:
    assert resolve(GroupKey("K", "default"), {"K": value}) == text


@pytest.mark.parametrize("value", [b"", b"IBM"])
def test_binary_is_refused_and_the_place_named(value: bytes) -> None:
    with pytest.raises(GroupIdError, match="group id in JMSXGroupID is bytes"):
        resolve(GroupKey(), {"JMSXGroupID": value})


def test_the_limit_is_exact_and_counts_utf8_bytes() -> None:
    for fits in ("x" * GROUP_ID_BYTES_MAX, "é" * (GROUP_ID_BYTES_MAX // 2)):
        assert resolve(GroupKey(), native=fits) == fits
    for long in ("x" * (GROUP_ID_BYTES_MAX + 1), "é" * (GROUP_ID_BYTES_MAX // 2) + "x"):
        with pytest.raises(GroupIdError, match="group-id has 1025 bytes, the limit is 1024"):
            resolve(GroupKey(), native=long)


def test_the_limit_can_be_configured() -> None:
    assert resolve(GroupKey(id_bytes_max=3), native="abc") == "abc"
    with pytest.raises(GroupIdError, match="the limit is 3"):
        resolve(GroupKey(id_bytes_max=3), native="abcd")
