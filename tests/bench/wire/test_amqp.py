"""The generator against a real broker: AMQP, receipts, and one load beside another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripts.benchmark.contender import Covey
from scripts.benchmark.process import Process
from scripts.benchmark.runner import Background

from covey.bench.generator import generate
from covey.bench.load import Load
from covey.bench.wire import amqp_wire as amqp
from covey.bench.wire.amqp import UNSETTLED_STATE, terminus
from covey.bench.wire.link import IncompleteError, Job


@pytest.fixture(scope="module")
def broker() -> Iterator[Process]:
    process = Covey().start()
    yield process
    process.stop()


def job(broker: Process, name: str, **fields: object) -> Job:
    given: dict[str, object] = {"destination": f"/queue/{name}", "count": 3000, "size": 128}
    ports = {"port": broker.port, "amqp_port": broker.amqp_port}
    return Job(**{**given, **ports, **fields})  # type: ignore[arg-type] # checked by use


def test_each_message_is_accepted_on_both_sides(broker: Process) -> None:
    both = {"sender": "amqp", "receiver": "amqp", "ack": "each", "is_confirmed": True}
    load = Load(job(broker, "acked", **both))
    assert (load.run().deliveries, load.confirmed) == (3000, 3000)


def test_messages_sent_settled_need_no_answer(broker: Process) -> None:
    load = Load(job(broker, "settled", sender="amqp", receiver="amqp"))
    assert (load.run().deliveries, load.confirmed) == (3000, 0)


def test_amqp_reaches_a_stomp_consumer(broker: Process) -> None:
    load = Load(job(broker, "crossing", sender="amqp", is_confirmed=True))
    assert (load.run().deliveries, load.confirmed) == (3000, 3000)


def test_every_receipt_of_a_durable_run_is_counted(broker: Process) -> None:
    durable = {"ack": "client-individual", "is_persistent": True, "is_confirmed": True}
    load = Load(job(broker, "durable", count=300, window=50, **durable))
    assert (load.run().deliveries, load.confirmed) == (300, 300)


def test_durable_messages_are_accepted_over_links_with_durable_ends(broker: Process) -> None:
    both = {"sender": "amqp", "receiver": "amqp", "ack": "each", "is_confirmed": True}
    load = Load(job(broker, "safe", count=300, window=50, is_persistent=True, **both))
    assert (load.run().deliveries, load.confirmed) == (300, 300)


def test_end_of_a_link_is_durable_only_if_it_is_to_be() -> None:
    durable, plain = terminus(amqp.TARGET, "/queue/a", True), terminus(amqp.TARGET, "/queue/a")
    number = amqp.uint(UNSETTLED_STATE)
    assert durable.endswith(b"/queue/a" + number)
    assert plain.endswith(b"/queue/a" + amqp.NULL)


def test_a_login_that_is_refused_stops_the_run(broker: Process) -> None:
    with pytest.raises(IncompleteError):
        Load(job(broker, "refused", sender="amqp", receiver="amqp", password="wrong"))


def test_a_load_beside_another_runs_until_it_is_stopped(broker: Process) -> None:
    with Background(job(broker, "beside", is_endless=True, window=200)) as background:
        assert generate(job(broker, "measured", count=100))[0].deliveries == 100
    assert background.rate > 0
    assert background.process.returncode == 0
