"""One normal form for names, and cutting that knows regular expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.errors import RefusedError
from covey.core.naming.path import (
    CANONICAL,
    LISTED_CHARACTERS,
    Marks,
    atoms,
    cut,
    decode,
    encode,
    escape,
    write,
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("aZ09_-~: ()", "aZ09_-~: ()"),
        ("stock/IBM", "stock%2FIBM"),
        ("stock%2fIBM", "stock%2FIBM"),
        ("%41", "A"),
        ("é", "%C3%A9"),
        ("%c3%a9", "%C3%A9"),
        ("100%", "100%25"),
        ("%zz", "%25zz"),
        ("a.b", "a%2Eb"),
    ],
)
def test_every_spelling_of_a_name_has_one_form(text: str, form: str) -> None:
    assert encode(text) == form
    assert encode(form) == form


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_form_keeps_the_meaning(text: str) -> None:
    assert decode(encode(text.replace("%", "%25"))) == text


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("a/b", "'/' at position 2 must be written as %2F"),
        ("é", "'é' at position 1 must be written as %C3%A9"),
        ("100%", "'%' at position 4 must be written as %25"),
        ("%4", "'%' at position 1 must be written as %25"),
        ("a+b", "'+' at position 2 must be written as %2B"),
        ("%é1", "'%' at position 1 must be written as %25"),
        ("a\0", "'%00' at position 2 must be written as %00"),
        ("a%ff", "%FF does not stand for UTF-8"),
    ],
)
def test_characters_that_are_not_listed_are_refused(text: str, cause: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        encode(text, listed=LISTED_CHARACTERS)
    assert refusal.value.code == "invalid"
    assert refusal.value.text.endswith(cause)


def test_escapes_and_listed_characters_are_taken() -> None:
    assert encode("a%2fb ~(c),*.", listed=LISTED_CHARACTERS) == "a%2Fb ~(c)%2C%2A%2E"


def test_separators_inside_a_regular_expression_do_not_cut() -> None:
    assert cut("a.{b.c{1,2}}.d", ".", CANONICAL) == ["a", "{b.c{1,2}}", "d"]
    assert cut("{a,b},c", ",", CANONICAL) == ["{a,b}", "c"]
    assert cut(r"{\}.}.x", ".", CANONICAL) == [r"{\}.}", "x"]


@pytest.mark.parametrize("text", ["{a", "a.{b{1}", "x{\\}"])
def test_a_brace_that_is_never_closed_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="has no '}'"):
        cut(text, ".", CANONICAL)


def test_atoms_can_be_written_with_other_marks_and_back() -> None:
    other = Marks("/", "+", "#", "<", ">")
    part = "a*{[0-9]{2}}b"
    written = "".join(write(atom, other) for atom in atoms(part, CANONICAL))
    assert written == "a+<[0-9]{2}>b"
    assert "".join(write(atom, CANONICAL) for atom in atoms(written, other)) == part


def test_an_expression_that_other_marks_could_not_read_back_is_refused() -> None:
    (atom,) = atoms("<a{b>", Marks("/", "+", "#", "<", ">"))
    with pytest.raises(RefusedError, match="has no '}'"):
        write(atom, CANONICAL)
    (atom,) = atoms("<a}b>", Marks("/", "+", "#", "<", ">"))
    with pytest.raises(RefusedError, match="must be balanced"):
        write(atom, CANONICAL)


def test_any_descendant_must_be_a_whole_part() -> None:
    with pytest.raises(RefusedError, match="must be a whole part"):
        atoms("I**", CANONICAL)


def test_reserved_characters_can_be_hidden() -> None:
    assert escape("a:b-c", ":") == "a%3Ab-c"
