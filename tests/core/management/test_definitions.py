"""An export goes in portions, and tells the same as one that is done at once."""

from __future__ import annotations

import json
from random import Random

from covey.core.management.admin import Admin
from covey.core.management.definitions import Export, export
from covey.core.security.passwords import RECORD_PREFIX
from covey.core.selector import compile_selector
from tests.core.double import Room, places
from tests.core.storage.sqlite.support import ADMIN

QUEUES = 30


def furnished() -> tuple[Room, Admin]:
    room = Room()
    admin = Admin(room.broker, room.broker.host, ADMIN)
    for number in Random(7).sample(range(QUEUES), QUEUES):
        admin.create("queue", f"q.{number}", {"qpid.max_count": number + 1}, room.now)
    session = room.enter().session
    for number in range(5):
        selector = compile_selector("a > 1")
        room.broker.make_durable(session, f"d{number}", places("/topic/t.*"), selector, room.now)
    return room, admin


def finish(room: Room, work: Export) -> dict[str, list[dict[str, object]]]:
    while not work.is_over:
        room.broker.go_on(room.now)
    found: dict[str, list[dict[str, object]]] = json.loads(work.text)
    return found


def test_random_portions_write_the_same_document() -> None:
    room, admin = furnished()
    at_once = finish(room, export(admin))
    assert [row["name"] for row in at_once["queues"]] == sorted(f"q.{n}" for n in range(QUEUES))
    assert len(at_once["subscriptions"]) == 5
    for seed in range(20):
        room.broker.jobs.portion = Random(seed).randrange(1, 12)
        work = export(admin)
        assert not work.is_over
        assert finish(room, work) == at_once


def test_what_is_deleted_before_the_export_comes_to_it_is_left_out() -> None:
    room, admin = furnished()
    room.broker.jobs.portion = 1
    work = export(admin)
    for number in range(1, QUEUES):
        admin.delete("queue", f"q.{number}", room.now)
    admin.delete("subscription", "d3", room.now)
    found = finish(room, work)
    assert [row["name"] for row in found["queues"]] == ["q.0"]
    assert [row["name"] for row in found["subscriptions"]] == ["d0", "d1", "d2", "d4"]


def test_an_export_with_passwords_hashes_those_in_clear_text_one_by_one() -> None:
    room, admin = furnished()
    room.broker.jobs.portion = 1
    work = export(admin, passwords=True)
    users = finish(room, work)["users"]
    assert [user["name"] for user in users] == ["admin"]
    assert str(users[0]["password"]).startswith(RECORD_PREFIX)
