"""Readers that keep numbers: what they learn at the end of a browse, and `covey-trim-to`."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from covey.config.queues import QueueSettings
from covey.config.settings import PermissionSettings, UserSettings
from tests.protocols.stomp.support import Client, Frame, World


@pytest.fixture
def world() -> World:
    return World()


def look(client: Client, destination: str, **headers: str) -> Frame:
    """Browse from the end on; return what the end says."""
    client.subscribe(destination, id="look", browser="true", from_seq="-1", **headers)
    end = client.take()
    assert end["browser"] == "end"
    client.send("UNSUBSCRIBE", {"id": "look"})
    return end


def test_a_browser_gives_up_what_it_is_done_with(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "1", "2", "3", "4")
    end = look(client, "/queue/a", covey_trim_to="3")
    assert (end["first-seq"], end["last-seq"], end["retained-from"]) == ("4", "4", "4")
    assert world.depth("/queue/a") == 1


def test_what_a_consumer_holds_is_not_given_up(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "1", "2")
    client.subscribe("/queue/a", id="eat", ack="client", credit="1,0")
    held = client.take()
    end = look(client, "/queue/a", covey_trim_to="2")
    assert (end["first-seq"], end["queue-messages"]) == ("1", "1")
    client.ack(held)
    assert world.depth("/queue/a") == 0


def test_a_queue_retains_what_was_not_dropped_though_it_was_consumed(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "1", "2")
    client.subscribe("/queue/a", id="eat")
    assert client.bodies() == ["1", "2"]
    assert look(client, "/queue/a")["retained-from"] == "1"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({}, ("0", "0")),
        ({"duplicate_window": 9}, ("9", "0")),
        ({"duplicate_window_s": 2.5}, ("1000000", "2.5")),
        ({"duplicate_window": 9, "duplicate_window_s": 60}, ("9", "60")),
    ],
)
def test_the_end_says_how_many_ids_are_remembered_and_for_how_long(
    policy: dict[str, float], told: tuple[str, str]
) -> None:
    world = World(queues=[QueueSettings.model_validate({"id": "**", **policy})])
    client = world.connect()
    client.publish("/queue/a", "1")
    end = look(client, "/queue/a")
    assert (end["duplicate-window"], end["duplicate-window-s"]) == told


def test_a_queue_that_comes_back_does_not_retain_what_the_old_one_held(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a", "1", "2")
    world.broker.host.delete_queue("a", "for the test")
    end = look(client, "/queue/a")
    assert (end["first-seq"], end["last-seq"], end["retained-from"]) == ("3", "2", "3")


def test_the_end_of_a_pattern_names_its_queues(world: World) -> None:
    client = world.connect()
    client.publish("/queue/a.x,/queue/a.y,/queue/b", "1")
    end = look(client, "/queue/a.*")
    assert sorted(end["queues"].split(",")) == ["a.x", "a.y"]


@pytest.mark.parametrize(
    ("destination", "browser"),
    [("/queue/a", "false"), ("/queue/*", "true"), ("/queue/a,/queue/b", "true")],
)
def test_a_trim_is_a_browser_s_and_of_one_queue(
    world: World, destination: str, browser: str
) -> None:
    client = world.connect()
    client.publish("/queue/a", "1")
    client.subscribe(destination, browser=browser, covey_trim_to="1")
    assert "covey-trim-to" in client.error()["message"]
    assert world.depth("/queue/a") == 1


def test_a_trim_needs_the_right_to_consume() -> None:
    viewer = UserSettings(name="viewer", password=SecretStr("password"))
    world = World(users=[viewer])
    world.connect(login="viewer").publish("/queue/a", "1")
    rules = [{"who": "viewer", "may": ["connect"]}, {"who": "viewer", "may": ["browse"], "on": "a"}]
    world.broker.users.apply([viewer], [PermissionSettings.model_validate(rule) for rule in rules])
    client = world.connect(login="viewer")
    assert look(client, "/queue/a")["last-seq"] == "1"
    client.subscribe("/queue/a", browser="true", covey_trim_to="1")
    assert client.error()["covey-code"] == "denied"
    assert world.depth("/queue/a") == 1
