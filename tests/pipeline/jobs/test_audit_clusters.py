"""A virtual host has one history, whichever process had it: workers, brokers of a cluster."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from covey.client.errors import ClientError
from covey.client.place import Place
from covey.pipeline.datasource.client import QueueClient
from covey.pipeline.jobs.audit import JOB
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import Node, ending, owners, wait_until
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess, running_broker
from tests.pipeline.support import run_job

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SPACES = ("default", "one")
NAMES = {"default": HOST, "one": "one.example"}
CONFIG = "".join(
    f'[[virtual_host]]\nid = "{space}"\nhost_names = ["{name}"]\n' for space, name in NAMES.items()
)
WORKERS = f"[broker]\nworkers = 2\n{CONFIG}"


def is_owner(node: str, broker: BrokerProcess) -> bool:
    """Return True if a broker of the cluster tells that a node serves the second virtual host."""
    return owners(broker)["one"] == node


def work(broker: BrokerProcess, space: str, seed: int, count: int = 200) -> None:
    """Send persistent messages of a few groups to a virtual host, and take half as many."""
    random = Random(seed)
    place = Place(HOST, broker.port, LOGIN, PASSCODE, virtual_host=NAMES[space])
    client = QueueClient(place)
    try:
        for _ in range(count):
            group = f"g{random.randrange(5)}"
            client.post("/queue/work", [("message_group", group), ("persistent", "true")], b"x")
        client.confirm()
        client.subscribe("/queue/work", [("ack", "client-individual"), ("credit", "20,0")])
        for _ in range(count // 2):
            delivery = client.message(10.0)
            assert delivery is not None
            client.ack(delivery)
        client.confirm()
    finally:
        with suppress(ClientError, OSError):
            client.close()


def audited(spark: SparkSession, tmp_path: Path) -> tuple[int, str, list[tuple[str, str]]]:
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/violations").to_pylist()
    return code, said, [(row["violation"], row["queue"]) for row in rows]


def end(broker: BrokerProcess) -> None:
    broker.signal(signal.SIGTERM)
    broker.process.wait(TIMEOUT_S)


def test_workers_that_are_killed_audit_clean_and_a_planted_loss_is_caught(
    spark: SparkSession, tmp_path: Path
) -> None:
    arguments = ("--event-log", str(tmp_path / "log"))
    for run in range(2):
        with running_broker(tmp_path / "b", config=WORKERS, arguments=arguments) as broker:
            for space in SPACES:
                work(broker, space, run)
            if run == 0:
                broker.signal(signal.SIGKILL)
            end(broker)
    code, said, found = audited(spark, tmp_path)
    assert (code, found) == (0, []), said
    assert "of 4 runs: every promise was kept" in said
    (database,) = [one for one in (tmp_path / "b/data").rglob("covey.db") if "one" in str(one)]
    with sqlite3.connect(database) as connection:
        connection.execute("delete from messages where id = (select max(id) from messages)")
    connection.close()
    with running_broker(tmp_path / "b", config=WORKERS, arguments=arguments) as broker:
        end(broker)
    code, said, found = audited(spark, tmp_path)
    assert (code, found) == (1, [("lost", "one/work")]), said


def test_a_take_over_and_a_way_back_are_one_history(spark: SparkSession, tmp_path: Path) -> None:
    server = Server()
    nodes: list[Node] = []
    try:
        with ending(nodes):
            take_over_and_back(tmp_path, Postgres(server), nodes)
    finally:
        server.remove()
    code, said, found = audited(spark, tmp_path)
    assert (code, found) == (0, []), said
    assert "of 3 runs: every promise was kept" in said
    rows = pq.read_table(tmp_path / "log", columns=["run", "virtual_host", "eid"]).to_pylist()
    assert len({row["run"] for row in rows if row["virtual_host"] == "one"}) == 3


def move(broker: BrokerProcess, space: str, node: str) -> None:
    place = f"{LOGIN}/{PASSCODE}@{HOST}:{broker.port_of(1)}"
    command = [sys.executable, "-m", "covey", "cluster", "move", space, node, "-b", place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.stdout == f"{space} is served by {node}\n", done.stderr


def take_over_and_back(tmp_path: Path, postgres: Postgres, nodes: list[Node]) -> None:
    config = f'[event_log]\ndir = "{tmp_path / "log"}"\n'
    nodes += [Node(tmp_path, postgres, name, spaces=SPACES, config=config) for name in "ab"]
    brokers = [node.served() for node in nodes]
    wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
    dying = "ab".index(str(owners(brokers[0])["one"]))
    taker, broker = nodes[1 - dying], brokers[1 - dying]
    work(brokers[dying], "one", 1)
    work(broker, "default", 2)
    nodes[dying].process.kill()
    wait_until(lambda: owners(broker)["one"] == taker.name, taker)
    work(broker, "one", 3)
    nodes[dying].process.wait(TIMEOUT_S)
    nodes[dying].start()
    brokers[dying] = nodes[dying].served()
    for target in (nodes[dying], taker):  # away from the taker, and back to the run that had it
        move(broker, "one", target.name)
        wait_until(partial(is_owner, target.name, broker), *nodes)
        work(brokers[nodes.index(target)], "one", 4)
    for each in brokers:
        end(each)
