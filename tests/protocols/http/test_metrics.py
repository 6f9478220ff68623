"""Metrics: text that Prometheus reads, low in cardinality, and counters that never fall."""

from __future__ import annotations

import time

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from covey.protocols.http import metrics
from covey.protocols.http.metrics import merged
from tests.protocols.http.support import World

EVIL = 'a"b\\c\nd} 1\n# TYPE x counter'


def scrape(world: World, path: str = "/metrics") -> dict[str, Metric]:
    answer = world.ask("GET", path)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], name: str) -> float:
    (sample,) = families[name].samples
    return float(sample.value)


@pytest.fixture
def world() -> World:
    return World()


def test_totals_count_what_there_is(world: World) -> None:
    for group in ("a", "b", "b"):
        world.send("q", group)
    session = world.read("q", credit=1)
    session.protocol = "stomp"
    found = scrape(world)
    assert value(found, "covey_messages_ready") == 2
    assert value(found, "covey_messages_unsettled") == 1
    assert value(found, "covey_groups") == 2
    assert value(found, "covey_consumers") == 1
    assert value(found, "covey_messages_enqueued") == 3
    assert found["covey_messages_enqueued"].type == "counter"
    assert [one.labels for one in found["covey_connections"].samples] == [{"protocol": "stomp"}]


def test_totals_do_not_grow_with_names(world: World) -> None:
    before = world.ask("GET", "/metrics").text.count("\n")
    for number in range(50):
        world.send(f"q{number}", f"g{number}")
    assert world.ask("GET", "/metrics").text.count("\n") == before


def test_counters_never_fall_when_a_queue_goes(world: World) -> None:
    world.send("q")
    scrape(world)
    world.send("q")
    world.ask("DELETE", "/api/v1/queues/q")
    assert value(scrape(world), "covey_messages_enqueued") == 2
    assert value(scrape(world), "covey_messages_dropped") == 2  # what came in is accounted for
    world.send("q")
    assert value(scrape(world), "covey_messages_enqueued") == 3
    assert value(scrape(world), "covey_messages_enqueued") == 3


def test_what_came_and_went_between_two_scrapes_is_counted_all_the_same(world: World) -> None:
    world.send("brief")
    world.ask("DELETE", "/api/v1/queues/brief")
    world.ask("POST", "/api/v1/topics/t/messages", json={"body": "x"})
    world.ask("DELETE", "/api/v1/topics/t")
    found = scrape(world)
    assert value(found, "covey_messages_enqueued") == 1
    assert value(found, "covey_topic_messages_published") == 1
    assert value(found, "covey_topic_messages_delivered") == 0


def test_names_keep_to_the_conventions_of_prometheus(world: World) -> None:
    world.send("q", "g")
    world.read("q")
    for path in ("/metrics", "/metrics/queues", "/metrics/groups"):
        lines = world.ask("GET", path).text.splitlines()
        kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
        helps = [line.split()[2] for line in lines if line.startswith("# HELP")]
        assert list(kinds) == helps
        assert len(set(helps)) == len(helps)
        for name, kind in kinds.items():
            assert name.startswith(("covey_", "process_"))
            assert name.endswith("_total") == (kind == "counter")
        for line in lines:
            assert line.startswith("#") or float(line.rpartition(" ")[2]) >= 0


def test_an_alarm_is_told_by_its_cause(world: World) -> None:
    world.broker.commits.overload.press("the disk has 5 bytes left")
    samples = scrape(world)["covey_alarm"].samples
    assert {one.labels["cause"]: one.value for one in samples} == {"disk": 1, "memory": 0}


def test_a_request_at_which_the_broker_fails_is_counted(world: World) -> None:
    assert value(scrape(world), "covey_internal_errors") == 0
    names, world.directory._names = world.directory._names, None  # type: ignore[assignment]
    assert world.ask("GET", "/api/v1/queues?host=localhost").status_code == 500
    world.directory._names = names
    assert value(scrape(world), "covey_internal_errors") == 1


def test_numbers_are_told_in_full(world: World) -> None:
    world.app.metrics.process.started_s = 1234567890.5
    assert value(scrape(world), "process_start_time_seconds") == 1234567890.5


def test_a_producer_that_waits_is_seen(world: World) -> None:
    session = world.session()
    session.block("queue q is full", time.monotonic() - 10)
    found = scrape(world)
    assert value(found, "covey_connections_blocked") == 1
    assert value(found, "covey_blocked_oldest_seconds") >= 10


def test_queues_are_told_by_name(world: World) -> None:
    world.send("q")
    (sample,) = scrape(world, "/metrics/queues")["covey_queue_messages_ready"].samples
    assert (sample.labels, sample.value) == ({"host": "default", "queue": "q"}, 1)
    (sample,) = scrape(world, "/metrics/queues")["covey_queue_messages_enqueued"].samples
    assert (sample.labels, sample.value) == ({"host": "default", "queue": "q"}, 1)


def test_group_skew_tells_owners_waits_and_the_largest(world: World) -> None:
    for group, count in (("small", 1), ("large", 3), ("stuck", 2)):
        for _ in range(count):
            world.send("q", group)
    world.read("q", credit=0)
    for group in ("stuck", "empty"):
        world.ask("POST", f"/api/v1/queues/q/groups/{group}/park")
    found = scrape(world, "/metrics/groups")
    assert value(found, "covey_queue_groups") == 3
    assert value(found, "covey_queue_groups_parked") == 2
    assert value(found, "covey_queue_groups_claimed") == 0
    assert value(found, "covey_queue_consumers_overdue") == 0
    assert value(found, "covey_queue_groups_blocked") == 1
    assert value(found, "covey_queue_messages_blocked") == 2
    assert value(found, "covey_queue_group_oldest_wait_seconds") >= 0
    (owned,) = found["covey_consumer_groups"].samples
    assert owned.labels == {"host": "default", "queue": "q", "consumer": "1"}
    sizes = {one.labels["group"]: one.value for one in found["covey_group_messages"].samples}
    assert sizes == {"large": 3, "stuck": 2, "small": 1}


def test_only_the_largest_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "QUEUES_SHOWN_MAX", 1)
    for number in range(30):
        world.send("q", f"g{number}")
    world.send("other", "g")
    found = scrape(world, "/metrics/groups")
    assert len(found["covey_group_messages"].samples) == metrics.GROUPS_SHOWN_MAX
    assert {one.labels["queue"] for one in found["covey_queue_groups"].samples} == {"q"}


def test_no_name_breaks_the_format(world: World) -> None:
    world.send("q", EVIL)
    (sample,) = scrape(world, "/metrics/groups")["covey_group_messages"].samples
    assert sample.labels["group"] == EVIL


def test_metrics_of_workers_are_joined_and_not_added_up() -> None:
    text = (
        "# HELP a Text.\n# TYPE a counter\na {n}\n"
        '# HELP b Text.\n# TYPE b gauge\nb{{x="y z"}} {n}\n'
    )
    found = merged({"1": text.format(n=2), "0": text.format(n=1), "2": None}, is_labelled=True)
    assert found.splitlines() == [
        "# HELP covey_worker_up 1 if a worker has answered; else its numbers lack.",
        "# TYPE covey_worker_up gauge",
        'covey_worker_up{worker="0"} 1',
        'covey_worker_up{worker="1"} 1',
        'covey_worker_up{worker="2"} 0',
        "# HELP a Text.",
        "# TYPE a counter",
        'a{worker="0"} 1',
        'a{worker="1"} 2',
        "# HELP b Text.",
        "# TYPE b gauge",
        'b{worker="0",x="y z"} 1',
        'b{worker="1",x="y z"} 2',
    ]
    assert 'b{x="y z"} 2' in merged({"1": text.format(n=2)}, is_labelled=False)
    assert list(text_string_to_metric_families(found))
