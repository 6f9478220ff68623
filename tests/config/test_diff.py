"""What differs between two configurations, and what a running broker can take of it."""

from __future__ import annotations

from typing import Any

import pytest

from covey.config.diff import changes, reloadable
from covey.config.settings import Settings

BASE: dict[str, Any] = {
    "broker": {"id": "one"},
    "connector": [{"id": "s", "protocol": "stomp", "bind": "127.0.0.1:1"}],
    "queue": [{"id": "a.**", "quota": 5}, {"id": "**"}],
    "user": [{"name": "ann", "password": "secret-one"}],
}


def settings(**given: Any) -> Settings:
    return Settings.model_validate(BASE | given)


def test_equal_settings_have_no_changes() -> None:
    assert changes(settings(), settings()) == []


def test_a_change_names_the_entry_the_key_and_both_values() -> None:
    new = settings(queue=[{"id": "**"}, {"id": "a.**", "quota": "1k"}], broker={"id": "two"})
    assert changes(settings(), new) == [
        "broker.id: one -> two",
        "queue[a.**].quota: 5 -> 1024",
        "queue: in the order **, a.**",
    ]


@pytest.mark.parametrize("table", ["queue", "topic"])
def test_policies_that_changed_places_are_told_since_the_first_match_counts(table: str) -> None:
    old = settings(**{table: [{"id": "a.*"}, {"id": "a.**"}, {"id": "**"}]})
    swapped = settings(**{table: [{"id": "a.**"}, {"id": "a.*"}, {"id": "**"}]})
    assert changes(old, swapped) == [f"{table}: in the order a.**, a.*, **"]
    grown = settings(**{table: [{"id": "b"}, {"id": "a.*"}, {"id": "**"}]})
    assert not [line for line in changes(old, grown) if line.startswith(f"{table}:")]


def test_permissions_are_counted_as_in_the_mistakes_of_a_file() -> None:
    old = settings(permission=[{"who": ["ann"], "may": ["send"], "on": "a"}])
    new = settings(permission=[{"who": ["ann", "bob"], "may": ["send"], "on": "a"}])
    assert changes(old, new) == ["permission[0].who: [ann] -> [ann, bob]"]


def test_an_entry_that_comes_or_goes_is_told_by_what_was_given_of_it() -> None:
    grown = settings(queue=[*BASE["queue"], {"id": "zz", "quota": 7}])
    assert changes(settings(), grown) == [
        "queue[zz].id: nothing -> zz",
        "queue[zz].quota: nothing -> 7",
    ]
    assert changes(grown, settings()) == [
        "queue[zz].id: zz -> nothing",
        "queue[zz].quota: 7 -> nothing",
    ]


def test_a_secret_is_never_shown() -> None:
    new = settings(
        user=[
            {"name": "ann", "password": "secret-two"},
            {"name": "bob", "password": "secret-three", "roles": ["dev"]},
        ]
    )
    lines = changes(settings(), new)
    assert "user[ann].password: changed" in lines
    assert "user[bob].password: changed" in lines
    assert "user[bob].roles: nothing -> [dev]" in lines
    assert "secret" not in "".join(lines)


def test_what_a_running_broker_cannot_change_stays_and_is_told() -> None:
    new = settings(
        broker={"id": "two", "connections_max": 7},
        store={"kind": "memory"},
        virtual_host=[{"id": "other", "host_names": ["x"]}],
    )
    taken, left = reloadable(settings(), new)
    assert taken.broker.id == "one"
    assert taken.broker.connections_max == 7
    assert taken.store.kind == settings().store.kind
    assert [entry.id for entry in taken.virtual_hosts] == ["default", "other"]
    assert "broker.id: one -> two" in left
    assert "store.kind: sqlite -> memory" in left
    assert not [line for line in left if "connections_max" in line]


TWO_HOSTS = [{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]


def test_virtual_hosts_may_come_and_get_other_names_but_none_goes() -> None:
    old = settings(
        virtual_host=[{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]
    )
    wanted = [{"id": "c", "host_names": ["c"]}, {"id": "a", "host_names": ["x", "y"]}]
    taken, left = reloadable(old, settings(virtual_host=wanted))
    assert [(one.id, one.host_names) for one in taken.virtual_hosts] == [
        ("a", ("x", "y")),
        ("b", ("b",)),
        ("c", ("c",)),
    ]
    assert left == [
        "virtual_host[b].id: b -> nothing",
        "virtual_host[b].host_names: [b] -> nothing",
        "virtual_host: in the order c, a",
    ]


def test_virtual_hosts_stay_if_one_takes_the_name_of_another_that_stays() -> None:
    old = settings(
        virtual_host=[{"id": "a", "host_names": ["a"]}, {"id": "b", "host_names": ["b"]}]
    )
    taken, left = reloadable(old, settings(virtual_host=[{"id": "a", "host_names": ["b"]}]))
    assert taken.virtual_hosts == old.virtual_hosts
    assert "virtual_host[a].host_names: [a] -> [b]" in left


def test_limits_of_the_store_can_change_while_it_runs_and_its_place_cannot() -> None:
    limits = {"disk_free_min": "2G", "disk_free_percent": 1, "unwritten_max": "1M"}
    taken, left = reloadable(settings(), settings(store=limits | {"path": "elsewhere"}))
    assert (taken.store.disk_free_min, taken.store.unwritten_max) == (2 << 30, 1 << 20)
    assert taken.store.path == settings().store.path
    assert left == ["store.path: data -> elsewhere"]


def test_a_connector_takes_options_but_keeps_its_port() -> None:
    wanted = {
        "id": "s",
        "protocol": "stomp",
        "bind": "127.0.0.1:2",
        "connections_max": 3,
        "stomp": {"max_headers": 9},
    }
    added = {"id": "t", "protocol": "amqp", "bind": "127.0.0.1:3"}
    taken, left = reloadable(settings(), settings(connector=[wanted, added]))
    (connector,) = taken.connectors
    assert (connector.bind, connector.connections_max) == ("127.0.0.1:1", 3)
    assert connector.stomp.max_headers == 9
    assert "connector[s].bind: 127.0.0.1:1 -> 127.0.0.1:2" in left
    assert [line for line in left if line.startswith("connector[t]")]


def test_a_connector_that_is_to_go_or_to_gain_tls_stays_as_it_is() -> None:
    tls = {"certificate": "a.pem", "key": "a.key"}
    secured = {"id": "s", "protocol": "stomp", "bind": "127.0.0.1:1", "tls": tls}
    for connectors in ([], [secured]):
        taken, left = reloadable(settings(), settings(connector=connectors))
        assert taken.connectors == settings().connectors
        assert left


def test_an_http_port_takes_its_new_options() -> None:
    port = {"id": "h", "protocol": "http", "bind": "127.0.0.1:2"}
    new = settings(connector=[port | {"http": {"body_max": 5}, "bind": "127.0.0.1:3"}])
    taken, left = reloadable(settings(connector=[port]), new)
    assert taken.connectors[0].http.body_max == 5
    assert left == ["connector[h].bind: 127.0.0.1:2 -> 127.0.0.1:3"]
