"""One normal form for names, and cutting that knows regular expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.errors import RefusedError
from covey.core.naming.path import CANONICAL, Marks, atoms, cut, decode, encode, escape, write


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


@pytest.mark.parametrize("text", ["a/b", "é", "100%", "%4", "a+b", "%é1"])
def test_strict_names_refuse_raw_characters(text: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        encode(text, strict=True)
    assert refusal.value.code == "invalid"
    assert "must be written as %XX" in refusal.value.text


def test_strict_names_take_escapes_and_plain_characters() -> None:
    assert encode("a%2fb ~(c)", strict=True) == "a%2Fb ~(c)"


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
