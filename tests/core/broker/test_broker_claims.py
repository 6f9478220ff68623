"""Claims: a name has one holder, and the newest claim wins."""

from __future__ import annotations

from covey.core.broker.broker import Claims

NAME = ("host", "user", "client", "link")


def test_a_claim_ends_whoever_has_the_name() -> None:
    claims = Claims()
    ended: list[str] = []
    for who in ("old", "new"):
        claims.evict(NAME)
        claims.hold(NAME, lambda who=who: ended.append(who))  # type: ignore[misc]
    assert ended == ["old"]
    claims.evict(NAME)
    assert ended == ["old", "new"]
    assert len(claims) == 0


def test_names_of_others_are_theirs() -> None:
    claims = Claims()
    ended: list[str] = []
    claims.hold(NAME, lambda: ended.append("mine"))
    claims.evict(("host", "user", "client", "other"))
    assert ended == []


def test_who_lost_a_name_cannot_give_it_back_for_the_new_holder() -> None:
    claims = Claims()
    ended: list[str] = []

    def old() -> None:
        ended.append("old")

    def new() -> None:
        ended.append("new")

    claims.hold(NAME, old)
    claims.evict(NAME)
    claims.hold(NAME, new)
    claims.release(NAME, old)
    assert len(claims) == 1
    claims.release(NAME, new)
    assert len(claims) == 0
