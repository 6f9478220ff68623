"""A broker that takes over a large virtual host serves its others meanwhile, and keeps them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from covey.client.errors import ClientError
from covey.client.management import Management
from covey.client.place import Place
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import LEASE_S, Node, ending, owners, wait_until
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess, Client

SPACES = ("default", "one")
BACKLOG = 12_000  # more than two reads of the store bring


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


def send(client: Client, body: bytes = b"x") -> None:
    headers = {"destination": "/queue/q", "persistent": "true", "receipt": "r"}
    client.send("SEND", headers, body)
    assert client.frame().command == "RECEIPT"


def fill(postgres: Postgres, space: str) -> None:
    """Give the queue `q` of a virtual host a backlog, as rows; their bodies are not read here."""
    with postgres.connect() as connection:
        connection.execute(
            "insert into covey_messages select q.space, (q.number::bigint << 42) + n,"
            " convert_to('g' || n %% 100, 'UTF8'), 0, 1, 0, 4, 0"
            " from covey_queues q join covey_spaces s on s.number = q.space,"
            " generate_series(1000000, 999999 + %s) n where s.id = %s and q.name = 'q'",
            (BACKLOG, space),
        )


def spread(
    tmp_path: Path, postgres: Postgres, nodes: list[Node]
) -> tuple[list[BrokerProcess], int]:
    """Start two nodes that have a virtual host each; return the number of the one with `one`."""
    nodes += [Node(tmp_path, postgres, name, spaces=SPACES) for name in "ab"]
    brokers = [node.served() for node in nodes]
    wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
    return brokers, "ab".index(str(owners(brokers[0])["one"]))


def test_the_others_are_served_and_kept_while_a_backlog_is_being_read(
    tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes: list[Node] = []
    with ending(nodes):
        brokers, dying = spread(tmp_path, postgres, nodes)
        with brokers[dying].client(host="one.example") as client:
            send(client)
        taker, broker = nodes[1 - dying], brokers[1 - dying]
        with postgres.connect() as connection, broker.client(host="default.example") as client:
            epochs = epochs_of(postgres)
            connection.execute("begin")
            connection.execute("lock table covey_messages")  # whoever reads the backlog waits
            nodes[dying].process.kill()
            wait_until(lambda: owners(broker)["one"] == taker.name, taker)
            until = time.monotonic() + 2 * LEASE_S
            while time.monotonic() < until:  # longer than a lease, and nothing is late
                send(client)
                assert owners(broker)["default"] == taker.name
                found = connection.execute(
                    "select expires > clock_timestamp() from covey_spaces where id = 'default'"
                    " union all select seen > clock_timestamp() - make_interval(secs => %s)"
                    " from covey_nodes where node = %s",
                    (LEASE_S, taker.name),
                ).fetchall()
                assert found == [(True,), (True,)]
            with pytest.raises(AssertionError, match="covey-code:unavailable"):
                broker.client(host="one.example")
            connection.execute("rollback")
            with until_served(broker, taker) as management:
                assert management.read("queue", "q")["messages"] == 1
            assert epochs_of(postgres) == {**epochs, "one": epochs["one"] + 1}


def epochs_of(postgres: Postgres) -> dict[str, int]:
    """Return how many owners each virtual host has had."""
    with postgres.connect() as connection:
        rows = connection.execute("select id, epoch from covey_spaces").fetchall()
    return {str(space): int(str(epoch)) for space, epoch in rows}


def until_served(broker: BrokerProcess, node: Node) -> Management:
    """Manage the virtual host `one` as soon as a broker serves it."""
    place = Place(HOST, broker.port_of(1), LOGIN, PASSCODE, virtual_host="one.example")
    found: list[Management] = []

    def is_served() -> bool:
        with suppress(ClientError):
            found.append(Management(place, TIMEOUT_S))
        return bool(found)

    wait_until(is_served, node)
    return found[0]


def test_a_backlog_of_several_pieces_is_taken_over_whole(tmp_path: Path, server: Server) -> None:
    postgres = Postgres(server)
    nodes: list[Node] = []
    with ending(nodes):
        brokers, dying = spread(tmp_path, postgres, nodes)
        with brokers[dying].client(host="one.example") as client:
            send(client)
        fill(postgres, "one")
        nodes[dying].process.kill()
        broker = brokers[1 - dying]
        with until_served(broker, nodes[1 - dying]) as management:
            assert management.read("queue", "q")["messages"] == BACKLOG + 1
            assert management.read("queue", "q")["groups"] == 100
