"""The checker itself: each kind of broken promise is found, and a good run is called good."""

from __future__ import annotations

from tests.e2e.checker import Line, check


def run(*words: str) -> list[Line]:
    """Write a log: `send a:g:1` is message a, of group g, number 1 of producer p."""
    lines: list[Line] = []
    for time, text in enumerate(words):
        what, _, rest = text.partition(" ")
        name, *more = rest.split(":")
        if what == "send":
            lines.append([time, what, name, "p", more[0], int(more[1])])
        else:
            lines.append([time, what, name, *more])
    return lines


GOOD = ("send a:g:1", "safe a", "got a", "settling a", "settled a")


def test_a_good_run_is_good() -> None:
    verdict = check(run(*GOOD, "send b:g:2", "send c:g:3", "void c"))
    assert verdict.is_good
    assert str(verdict).startswith("1 safe, 1 settled: lost 0, ")


def test_a_safe_message_that_nobody_settled_is_lost() -> None:
    assert check(run("send a:g:1", "safe a")).lost == ["a"]
    assert check(run("send a:g:1", "safe a", "got a")).lost == ["a"]
    assert check(run("send a:g:1")).is_good


def test_what_nobody_sent_or_was_aborted_is_a_phantom() -> None:
    assert check(run("got a")).phantom == ["a"]
    assert check(run("send a:g:1", "void a", "got a")).phantom == ["a"]


def test_a_delivery_after_its_settlement_is_found() -> None:
    assert check(run(*GOOD, "got a")).redelivered == ["a"]
    assert check(run(*GOOD[:4], "got a", "settling a", "settled a")).is_good


def test_first_deliveries_of_a_group_must_be_in_order() -> None:
    sends = ("send a:g:1", "send b:g:2")
    assert check(run(*sends, "got b", "got a")).reordered == ["a"]
    assert check(run(*sends, "got a", "got b", "got a")).is_good
    assert check(run("send a:g:1", "send b:h:2", "got b", "got a")).is_good


def test_an_original_that_was_settled_with_its_copy_has_just_that_one() -> None:
    start = (*GOOD[:3], "settling a", "copy c:a")
    assert check(run(*start, "settled a", "safe c", "got c", "settling c")).is_good
    assert check(run(*start, "settled a", "safe c")).lost == ["c"]
    assert check(run(*start, "copy d:a", "got c", "got d")).split == ["a"]
    assert check(run(*start)).is_good  # in doubt: it may have happened or not


def test_lines_are_read_by_their_time() -> None:
    assert check(list(reversed(run(*GOOD)))).is_good
