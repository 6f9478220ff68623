"""Selectors as a whole: text in, yes or no out; limits; hostile input; docs/selectors.md."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.errors import RefusedError
from covey.core.selector import Value, compile_selector


def matches(selector: str, **properties: Value) -> bool:
    return compile_selector(selector).matches(properties.get)


def refusal(selector: str) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        compile_selector(selector)
    return refused.value


def test_a_selector_knows_its_text_and_the_names_it_reads() -> None:
    selector = compile_selector("a = 1 AND \"b:c\" LIKE 'x' OR a-b IS NULL")
    assert selector.text.startswith("a = 1")
    assert selector.names == {"a", "b:c", "a-b"}


def test_only_the_properties_it_comes_to_are_looked_up() -> None:
    asked: list[str] = []

    def lookup(name: str) -> Value:
        asked.append(name)
        return "no"

    assert not compile_selector("a = 'yes' AND b = 'yes'").matches(lookup)
    assert asked == ["a"]


def test_typed_properties_compare_like_texts() -> None:
    for weight in ("3000", 3000, 3000.0, " 3e3 "):
        assert matches("weight > 2500", weight=weight)
        assert matches("weight = '3000' OR weight = 3000", weight=weight)
    assert matches("flag = TRUE", flag=True)
    assert matches("a = b", a=b"x", b=b"x")


def test_mixed_types_are_unknown() -> None:
    for selector in ("a = 1", "a <> 1", "a > 1", "NOT a = 1", "a LIKE '%'", "NOT a LIKE '%'"):
        assert not matches(selector, a=True)
        assert not matches(selector, a=b"1")


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        ("TRUE", True),
        ("FALSE", False),
        ("NOT FALSE", True),
        ("u = 1 AND FALSE", False),
        ("NOT (u = 1 AND FALSE)", True),
        ("NOT (u = 1 AND TRUE)", False),
        ("u = 1 OR TRUE", True),
        ("TRUE OR u = 1", True),
        ("NOT (u = 1 OR FALSE)", False),
        ("NOT u", False),
        ("u BETWEEN 1 AND 2", False),
        ("u NOT BETWEEN 1 AND 2", False),
        ("5 NOT BETWEEN 1 AND u", False),
        ("5 NOT BETWEEN 6 AND u", True),
        ("u IN ('a')", False),
        ("u NOT IN ('a')", False),
        ("'x' NOT IN (-1, 'y')", False),
        ("u NOT LIKE 'a'", False),
        ("u + 1 IS NULL", True),
        ("NOT u IS NULL", False),
    ],
)
def test_the_logic_has_three_values(selector: str, answer: bool) -> None:
    assert matches(selector) is answer


@pytest.mark.parametrize(
    "selector",
    [
        "1 + 2 * 3 = 7",
        "(1 + 2) * 3 = 9",
        "10 - 3 - 2 = 5",
        "-7 / 2 = -3",
        "7 / -2.0 = -3.5",
        "- - 3 = 3",
        "+'4' = 4",
        "'3' * '4' = 12",
        "1-1 = 0",
        "9223372036854775807 + 1 = 9223372036854775808",
        "-9223372036854775808 < 0",
        "NOT 1 = 2 AND 1 = 1",
        "1 = 2 AND 1 = 1 OR TRUE",
        "TRUE OR TRUE AND FALSE",
        "1 BETWEEN 0 AND 1 AND TRUE",
        "TRUE <> FALSE",
        "'a' < 'b'",
        "5 IN ('4', '5')",
        "'5' IN (4, 5, 'x')",
        "5 NOT IN (-1, +1)",
        "'a%b' LIKE 'a!%_' ESCAPE '!'",
        "'a%' LIKE 'a%%' ESCAPE '%'",
        "'' LIKE '%'",
        "'a\nb' LIKE 'a_b'",
        "'a.b' NOT LIKE 'a.c'",
        "'é' LIKE '_'",
        "tRuE aNd NoT fAlSe",
    ],
)
def test_constants_obey_sql(selector: str) -> None:
    assert matches(selector)


def test_names_may_hold_dots_dollars_and_letters_of_any_script() -> None:
    properties: dict[str, Value] = {"a.b": "1", "$x": "2", "größe": "3", "android": "4", "é-1": "5"}
    selector = compile_selector("a.b=1 AND $x=2 AND größe=3 AND android=4 AND é-1=5")
    assert selector.matches(properties.get)
    assert selector.names == set(properties)


def test_a_double_hyphen_or_a_hyphen_before_a_dot_subtracts() -> None:
    assert matches("a--5 = 6", a="1")
    assert matches("a-.5 = 0.5", a="1")


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "   ",
        "a = ",
        "= 1",
        "a = 1 AND",
        "a b",
        "5",
        "'x'",
        "a + 1",
        "a = (b = 1)",
        "a LIKE b",
        "a LIKE 'x' ESCAPE 'yz'",
        "a LIKE 'x!' ESCAPE '!'",
        "a IN ()",
        "a IN (b)",
        "a BETWEEN 1",
        "a IS 5",
        "a = 1 = 2",
        "a != 1",
        'a = "',
        "a = 08",
        "a = 1.5L",
        "a = 0x11112222333344445",
        "a = 5abc",
        "a = 1; DROP TABLE",
    ],
)
def test_nonsense_is_refused_with_a_column(selector: str) -> None:
    refused = refusal(selector)
    assert refused.code == "invalid"
    assert refused.text.startswith("selector, column ")


def test_limits_are_named_when_they_are_passed() -> None:
    assert refusal("a" * 4097).text == "selector: 4097 characters, at most 4096"
    assert refusal("(" * 65 + "a" + ")" * 65).text == "selector, column 65: nested deeper than 64"
    assert refusal("NOT " * 65 + "a").code == "limit"
    assert refusal("a = " + "- " * 65 + "1").code == "limit"
    assert refusal("a LIKE '" + "%a" * 17 + "'").code == "limit"
    with pytest.raises(RefusedError):
        compile_selector("a = 1", length_max=4)
    with pytest.raises(RefusedError):
        compile_selector("((a))", depth_max=1)


@pytest.mark.parametrize(
    "selector",
    [
        "(" * 64 + "a" + ")" * 64,
        "(b OR TRUE AND " * 64 + "a" + ")" * 64,
        "NOT (b OR TRUE AND " * 32 + "a" + ")" * 32,
        "1 < " + "(1 + 2 * " * 64 + "3" + ")" * 64,
        " OR ".join(["a"] * 800),
        "1 < " + "+".join("1" * 2000),
    ],
)
def test_the_deepest_and_longest_stay_far_from_pythons_limit(selector: str) -> None:
    limit = sys.getrecursionlimit()
    frames = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frames, frame = frames + 1, frame.f_back
    sys.setrecursionlimit(frames + 650)
    try:
        compile_selector(selector).matches({"a": "true"}.get)
    finally:
        sys.setrecursionlimit(limit)


def test_hostile_selectors_take_no_time() -> None:
    value = "a" * 10_000
    begun = time.perf_counter()
    assert not matches("x LIKE '" + "%a" * 16 + "b'", x=value)
    assert not matches("x LIKE '" + "%_" * 16 + "b'", x=value)
    assert not matches("x > 1", x="9" * 100_000 + "x")
    assert matches("*".join(["x"] * 1000) + " > 1", x="9" * 18)
    assert refusal("(" * 4096).code == "invalid"
    assert time.perf_counter() - begun < 2


@settings(deadline=None)
@given(st.text(alphabet="ab15 .-+*/()='%<>,\"", max_size=30) | st.text(max_size=30))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        selector = compile_selector(text)
    except RefusedError:
        return
    assert selector.matches({"a": "1", "b": "x"}.get) in (True, False)


# Every row of docs/selectors.md does what the page says.

PAGE = (Path(__file__).parents[3] / "docs" / "selectors.md").read_text(encoding="utf-8")
MATCHING = re.findall(r"^\| `(.+?)` \| (`.+`) \| (yes|no) \|$", PAGE, re.MULTILINE)
REFUSED = re.findall(r"^\| `(.+?)` \| `(column .+)` \|$", PAGE, re.MULTILINE)


def test_the_page_has_its_rows() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(MATCHING) + len(REFUSED)
    assert len(MATCHING) > 30
    assert len(REFUSED) > 5


@pytest.mark.parametrize(("selector", "headers", "answer"), MATCHING)
def test_a_row_matches_as_the_page_says(selector: str, headers: str, answer: str) -> None:
    pairs = [header.split(":", 1) for header in re.findall(r"`(.+?)`", headers)]
    lookup = {name: value for name, value in pairs}.get
    assert compile_selector(selector).matches(lookup) is (answer == "yes")


@pytest.mark.parametrize(("selector", "reason"), REFUSED)
def test_a_row_is_refused_as_the_page_says(selector: str, reason: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        compile_selector(selector)
    assert refusal.value.text == f"selector, {reason}"
    assert refusal.value.code == "invalid"
