"""The data source's connection, against the real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.client.place import Place
from covey.pipeline.datasource.client import TRIM_STEP, connected
from covey.pipeline.errors import PipelineError
from tests.e2e.support import HOST, BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import bodies_of, client_of, figures_of, fill, take


def test_a_queue_says_where_it_begins_and_ends(broker: BrokerProcess) -> None:
    fill(broker, "figures", 5)
    take(broker, "figures", 2)
    found = figures_of(broker, "figures")
    assert (found.first, found.end, found.messages, found.size_bytes) == (3, 6, 3, 3)
    assert found.retained_from == 1  # what was consumed is no loss


def test_a_trim_gives_up_what_lies_before_a_number(broker: BrokerProcess) -> None:
    fill(broker, "trim", TRIM_STEP + 20)
    with client_of(broker) as client:
        client.trim("trim", TRIM_STEP + 11)
        client.trim("trim", 3)  # nothing is left there
    found = figures_of(broker, "trim")
    assert (found.first, found.messages) == (TRIM_STEP + 11, 10)
    assert found.retained_from == TRIM_STEP + 11


def test_a_queue_whose_numbers_began_anew_is_not_trimmed_by_the_old_ones(
    broker: BrokerProcess,
) -> None:
    fill(broker, "anew", 5)
    with client_of(broker) as client:
        client.trim("anew", 7)  # a reader had got so far when the broker lost its disk
        assert client.figures("anew").messages == 5
        client.trim("anew", 6)
        assert client.figures("anew").messages == 0


def test_a_thousand_queues_are_found_and_asked(broker: BrokerProcess) -> None:
    names = [f"many.tenant-with-a-long-name-{number:04}" for number in range(1000)]
    with client_of(broker) as client:
        for name in names:
            client.post(f"/queue/{name}", [], b"x")
        client.confirm()
        assert [name for name in client.queues() if name.startswith("many.")] == names
        found = client.figures_of([*names, names[0]])
    assert list(found) == names
    assert {(one.first, one.end) for one in found.values()} == {(1, 2)}


def test_a_connection_serves_browses_one_after_the_other_until_one_is_left(
    broker: BrokerProcess,
) -> None:
    fill(broker, "serves", 5)
    with client_of(broker) as client:
        for end, found, is_spent in ((9, 5, False), (6, 5, False), (3, 2, True)):
            assert not client.is_spent
            rows = list(client.browse("serves", 1, end))
            assert sum(len(some.seqs) for some in rows) == found
            assert client.is_spent == is_spent


def test_a_pattern_is_no_queue(broker: BrokerProcess) -> None:
    with pytest.raises(PipelineError, match=r"^x=y: a\.\* is a pattern, the name of one queue"):
        with connected((client_of(broker).place,), "x", "y") as client:
            client.figures("a.*")


def test_a_browse_starts_at_a_number_and_takes_nothing(broker: BrokerProcess) -> None:
    fill(broker, "browse", 5)
    with client_of(broker) as client:
        found = list(client.browse("browse", 2, selector="message_group = 'g2'"))
    selected = [body for rows in found for body in rows.bodies]
    assert selected == [b"2", b"5"]
    assert bodies_of(broker, "browse") == [b"1", b"2", b"3", b"4", b"5"]


def test_a_producer_cannot_end_a_browse(broker: BrokerProcess) -> None:
    with client_of(broker) as client:
        client.post("/queue/forged", [("browser", "end"), ("subscription", "1")], b"x")
        client.post("/queue/forged", [], b"y")
        client.confirm()
    assert bodies_of(broker, "forged") == [b"x", b"y"]


def test_all_queues_are_listed(broker: BrokerProcess) -> None:
    fill(broker, "listed", 1)
    fill(broker, "listed.too", 1)
    with client_of(broker) as client:
        assert {"listed", "listed.too"} <= set(client.queues())


def test_the_first_broker_that_answers_is_taken(broker: BrokerProcess) -> None:
    fill(broker, "second", 1)
    here = Place(HOST, broker.port, "admin", "password")
    with connected((replace(here, port=1), here), "subscribe", "second") as client:
        assert client.figures("second").messages == 1


def test_each_failure_names_its_option(broker: BrokerProcess) -> None:
    here = Place(HOST, broker.port, "admin", "password")
    with (
        pytest.raises(PipelineError, match=r"^brokers=127.0.0.1:1: no broker answers"),
        connected((replace(here, port=1),), "subscribe", "q"),
    ):
        pass
    with (
        pytest.raises(PipelineError, match=r"^user=admin: .* login failed"),
        connected((replace(here, password="wrong"),), "subscribe", "q"),
    ):
        pass
    with (
        pytest.raises(PipelineError, match=r"^subscribe=q: "),
        connected((here,), "subscribe", "q") as client,
    ):
        list(client.browse("q", 0, selector="this is no selector"))
