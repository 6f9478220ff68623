"""replay sends a record as it came, groups in order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from covey.pipeline.datasource.offsets import Range
from covey.pipeline.datasource.options import read_options
from covey.pipeline.datasource.reader import read_ranges
from covey.pipeline.errors import PipelineError
from covey.pipeline.jobs import archive
from covey.pipeline.jobs.replay import JOB, Pace, due_times, host_names
from tests.e2e.support import BrokerProcess, running_broker
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, client_of
from tests.pipeline.support import log_in, run_job, tell


def groups_of(
    broker: BrokerProcess, queue: str, host: str = ""
) -> dict[str, list[tuple[str, bytes]]]:
    """Return id and body of the messages of each group, in their order on the queue."""
    given = {"brokers": at(broker), "subscribe": queue, "virtualHost": host}
    options = read_options(given, is_stream=False)
    found: dict[str, list[tuple[str, bytes]]] = {}
    for batch in read_ranges(options, [Range(queue, 0, 1 << 40)], ""):
        for row in batch.to_pylist():
            found.setdefault(row["group_id"], []).append((row["message_id"], row["value"]))
    return found


TWO_HOSTS = """
[[virtual_host]]
id = "shop"
host_names = ["127.0.0.1"]
[[virtual_host]]
id = "bank"
host_names = ["bank.example"]
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_queues_of_each_virtual_host_go_to_theirs(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path / "log")
    for seq in range(1, 7):
        tell(log, "orders", "g", f"in {seq}")
        tell(log, "bank/orders", "g", f"in {seq}")
        tell(log, "dsub:bank.news", "", f"in {seq}")
    log.close()
    options = {"speed": 0.0, "senders": 2, "body_bytes": 1, "input": str(tmp_path / "log")}
    with running_broker(tmp_path / "broker", config=TWO_HOSTS) as broker:
        options |= {"to": f"covey://{at(broker)}", "out": tmp_path}
        with pytest.raises(
            PipelineError, match=r"host bank: .*no virtual host has the host name b"
        ):
            run_job(spark, JOB, host=[], **options)
        assert groups_of(broker, "orders") == {}  # nothing was sent before all could be
        _, said = run_job(spark, JOB, host=["bank=bank.example"], **options)
        assert said.startswith("replay: 12 messages in ")
        assert said.endswith("; 6 of durable subscriptions left out\n")
        ids = [[f"r1-{eid}" for eid in range(first, 19, 3)] for first in (1, 2)]
        own, bank = groups_of(broker, "orders"), groups_of(broker, "orders", "bank.example")
        assert [[one for one, _ in sent["g"]] for sent in (own, bank)] == ids
        _, said = run_job(spark, JOB, host=[], **options | {"to": f"covey://{at(broker)}/all"})
        assert said.startswith("replay: 18 messages in ")


def test_a_host_without_its_name_is_refused() -> None:
    assert host_names(["a=b", "c=d"]) == {"a": "b", "c": "d"}
    for text in ("bank", "=x", "x="):
        with pytest.raises(PipelineError, match=f"^--host {text}: ID=NAME is meant"):
            host_names([text])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_event_log_is_sent_with_its_groups_in_order_at_its_pace(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log")  # an event each millisecond
    for seq in range(1, 201):
        tell(log, "recorded", f"g{seq % 3}", f"in {seq}")
    log.close()
    options = {"speed": 0.5, "senders": 2, "body_bytes": 7, "host": []}
    place = f"covey://{at(broker)}"
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path, to=place, **options)
    assert code == 0
    assert said.startswith("replay: 200 messages in ")
    assert float(said.split()[4]) >= 0.3  # 199 ms at half the speed
    sent = groups_of(broker, "recorded")
    for number in range(3):
        ids = [f"r1-{eid}" for eid in range(1, 201) if eid % 3 == number]
        assert sent[f"g{number}"] == [(one, bytes(7)) for one in ids]
    assert "200 messages" in (tmp_path / "replay.html").read_text()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_archive_is_sent_with_its_bodies_in_order_at_twice_its_pace(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    with client_of(broker) as client:
        for number in range(1, 61):  # one each 20 ms
            headers = [("message_group", f"g{number % 4}"), ("timestamp", str(20 * number))]
            client.post("/queue/kept", [*headers, ("message-id", f"m{number}")], b"%d" % number)
        client.confirm()
    given = {"trim": False, "every": 0.0, "batch_rows": 20, "option": ()}
    run_job(spark, archive.JOB, input=f"covey://{at(broker)}/kept", out=tmp_path, **given)
    options = {"speed": 2.0, "senders": 2, "body_bytes": 0, "host": []}
    place = f"covey://{at(broker)}/again"
    _, said = run_job(spark, JOB, input=str(tmp_path), out=tmp_path, to=place, **options)
    assert said.startswith("replay: 60 messages in ")
    assert float(said.split()[4]) >= 0.59  # 59 steps of 20 ms at twice the speed
    sent = groups_of(broker, "again")
    for number in range(4):
        recorded = [one for one in range(1, 61) if one % 4 == number]
        assert sent[f"g{number}"] == [(f"m{one}", b"%d" % one) for one in recorded]


# A recorded message goes when its time has come.


def test_times_are_kept_and_shortened_by_the_speed() -> None:
    came = np.array([np.nan, 10.0, 14.0])
    assert due_times(came, Pace(10.0, 2.0), 100.0).tolist() == [100.0, 100.0, 102.0]
    assert due_times(came, Pace(10.0, 0.0), 100.0).tolist() == [100.0, 100.0, 100.0]
