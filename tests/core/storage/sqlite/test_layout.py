"""Each virtual host has a directory of its own; the one store that all had is moved there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.config.settings import Settings, StoreSettings, VirtualHostSettings
from covey.core.broker.broker import Broker
from covey.core.errors import StoreError
from covey.core.storage import open_store, prepare_stores
from covey.core.storage.sqlite import layout
from covey.core.storage.sqlite.layout import MOVED, MOVING, directory_of, move_in
from tests.core.storage.sqlite.support import House
from tests.core.support import depth

HOSTS = tuple([VirtualHostSettings(id=name, host_names=(name,)) for name in ("one", "two")])
SETTINGS = Settings(virtual_host=HOSTS)


class Killed(BaseException):
    """Stands for the end of the process, at any call of the system that changes a name."""


@pytest.mark.parametrize(
    ("space", "name"),
    [
        ("default", "default"),
        ("shop.example", "shop.example"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
        (".hidden", "%2Ehidden"),
        ("lock", "%6Cock"),
        ("moving", "%6Doving"),
        ("100%", "100%25"),
        ("zürich", "z%C3%BCrich"),
    ],
)
def test_a_directory_is_named_by_its_virtual_host(space: str, name: str) -> None:
    assert directory_of("data", space) == Path("data") / name


def test_a_name_that_no_directory_can_have_is_refused() -> None:
    with pytest.raises(StoreError, match="too long for a directory's name"):
        directory_of("data", "x" * 256)


def fill(path: Path, space: str, *bodies: bytes, queue: str = "a") -> None:
    """Put messages of a virtual host into the one store that older releases had."""
    first = HOSTS if space == "one" else HOSTS[::-1]
    house = House(path, Settings(virtual_host=first))
    for body in bodies:
        house.send(queue, body)
    house.rest()
    house.store.close()


def counts(path: Path) -> dict[str, int]:
    """Return how many messages of its queue each virtual host has."""
    found = {}
    for entry in HOSTS:
        store = open_store(
            Settings(store=StoreSettings(path=str(path))), entry.id, lambda call: None
        )
        broker = Broker(SETTINGS, store, space=entry.id)
        found[entry.id] = depth(broker.host.queue("a"))
        store.close()
    return found


def moved(path: Path) -> list[str]:
    notes, exposed = prepare_stores(StoreSettings(path=str(path)), "one")
    assert exposed == []
    return notes


def test_the_store_of_one_virtual_host_is_renamed_into_its_place(tmp_path: Path) -> None:
    fill(tmp_path, "one", b"1", b"2")
    (note,) = moved(tmp_path)
    assert "was moved to" in note
    assert counts(tmp_path) == {"one": 2, "two": 0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "one", "two"]
    assert moved(tmp_path) == []


def test_the_store_of_several_virtual_hosts_is_divided(tmp_path: Path) -> None:
    fill(tmp_path, "one", b"1", b"2")
    fill(tmp_path, "two", b"3")
    (note,) = moved(tmp_path)
    assert "was divided" in note
    assert counts(tmp_path) == {"one": 2, "two": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "one", "two"]


@pytest.mark.parametrize(("first", "shares"), [("one", (3, 1)), ("two", (2, 2))])
def test_messages_of_unknown_queues_go_to_the_first_virtual_host(
    tmp_path: Path, first: str, shares: tuple[int, int]
) -> None:
    fill(tmp_path, "one", b"1", b"2")
    fill(tmp_path, "one", b"of nobody", queue="gone")
    fill(tmp_path, "two", b"3")
    with closing(sqlite3.connect(tmp_path / "covey.db")) as connection, connection:
        connection.execute("delete from queues where name = 'gone'")
    prepare_stores(StoreSettings(path=str(tmp_path)), first)
    for space, share in zip(("one", "two"), shares, strict=True):
        with closing(sqlite3.connect(tmp_path / space / "covey.db")) as connection:
            assert connection.execute("select count(*) from messages").fetchone() == (share,)


def test_an_empty_store_is_the_first_virtual_hosts(tmp_path: Path) -> None:
    House(tmp_path).store.close()
    assert len(moved(tmp_path)) == 1
    assert (tmp_path / "one" / "covey.db").exists()


@pytest.mark.parametrize("hosts", [("one",), ("one", "two")])
def test_a_kill_at_any_time_leaves_the_old_store_or_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...]
) -> None:
    expected = {"one": 0, "two": 0}
    for space in hosts:
        fill(tmp_path / "old", space, b"1", b"2")
        expected[space] = 2
    kills = 0
    is_whole = False
    while not is_whole:
        place = tmp_path / str(kills)
        shutil.copytree(tmp_path / "old", place)
        is_whole = not is_killed(place, monkeypatch, kills)
        moved(place)
        assert counts(place) == expected, kills
        assert not (place / MOVING).exists()
        assert not (place / MOVED).exists()
        kills += 1
    assert kills > 3


def is_killed(place: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> bool:
    """Move, and end after so many calls that may change a name on the disk."""
    left = after
    with monkeypatch.context() as patch:
        for owner, name in (
            (layout, "_sync"),
            (layout, "_copy"),
            (os, "rename"),
            (layout, "_clear"),
        ):
            real = getattr(owner, name)

            def dying(*given: object, real: object = real) -> object:
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return real(*given)  # type: ignore[operator]

            patch.setattr(owner, name, dying)
        try:
            move_in(StoreSettings(path=str(place)), "one")
        except Killed:
            return True
    return False


def test_a_store_that_is_at_its_place_is_never_overwritten(tmp_path: Path) -> None:
    fill(tmp_path, "one", b"1")
    moved(tmp_path)
    fill(tmp_path, "one", b"2", b"3")
    with pytest.raises(StoreError, match="which one counts"):
        moved(tmp_path)
    (tmp_path / "covey.db").unlink()
    (tmp_path / "confirmed").unlink()
    assert counts(tmp_path)["one"] == 1


def test_a_store_in_use_is_not_moved(tmp_path: Path) -> None:
    house = House(tmp_path)
    with pytest.raises(StoreError, match="in use by another broker"):
        moved(tmp_path)
    house.store.close()


def test_a_data_directory_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "close_to_others", lambda *given: None)  # it is another user's
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="everybody may write"):
        prepare_stores(StoreSettings(path=str(tmp_path)), "one")
    allowed = StoreSettings(path=str(tmp_path), allow_open_files=True)
    notes, (exposed,) = prepare_stores(allowed, "one")
    assert notes == [] and "everybody may write" in exposed
