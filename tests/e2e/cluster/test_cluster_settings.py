"""What operators set and ask at one broker of a cluster holds for all of them."""

from __future__ import annotations

import json
import signal
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from covey.client.errors import AnswerError
from covey.client.management import Management
from covey.client.place import Place
from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import Node, ending, management, owners, wait_until
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess

SPACES = ("default", "one")
HOSTS = [f"{space}.example" for space in SPACES]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


def manager(broker: BrokerProcess, host: str) -> Management:
    """Manage a virtual host through a broker."""
    return Management(Place(HOST, broker.port_of(1), LOGIN, PASSCODE, virtual_host=host), TIMEOUT_S)


def lets_in(broker: BrokerProcess, host: str, password: str) -> bool:
    """Say whether ann may come in; over AMQP the broker that is asked decides."""
    try:
        place = Place(HOST, broker.port_of(1), "ann", password, virtual_host=host)
        with Management(place, TIMEOUT_S):
            return True
    except Exception:
        return False


def test_users_and_policies_hold_at_all_brokers_and_outlive_the_one_that_set_them(
    tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, name, spaces=SPACES) for name in "ab"]
    with ending(nodes):
        brokers = [node.served() for node in nodes]
        wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
        wait_until(lambda: owners(brokers[0]) == owners(brokers[1]), *nodes)
        with manager(brokers[0], HOSTS[0]) as client:
            client.ask("CREATE", "user", "ann", {"password": "first", "roles": ["admin"]})
            client.ask("CREATE", "policy", "orders", {"quota_messages": 5})
        wait_until(
            lambda: all(lets_in(each, host, "first") for each in brokers for host in HOSTS), *nodes
        )
        with manager(brokers[1], HOSTS[1]) as client:
            assert client.read("policy", "orders")["settings"] == {"quota_messages": 5}
            client.ask("UPDATE", "user", "ann", {"password": "second"})
        wait_until(
            lambda: all(lets_in(each, host, "second") for each in brokers for host in HOSTS), *nodes
        )
        assert not any(lets_in(each, host, "first") for each in brokers for host in HOSTS)
        with management(brokers[0]) as client, pytest.raises(AnswerError, match="name one instead"):
            client.ask("CREATE", "user", "bob", {"password": "x"})

        nodes[1].process.kill()
        nodes[1].process.wait(TIMEOUT_S)
        wait_until(lambda: set(owners(brokers[0]).values()) == {"a"}, nodes[0])
        assert lets_in(brokers[0], HOSTS[1], "second")
        nodes[1].start()
        brokers[1] = nodes[1].served()
        # It gets its share at once, and whoever comes in that moment is told to come again.
        wait_until(lambda: lets_in(brokers[1], HOSTS[0], "second"), *nodes)
        with manager(brokers[0], HOSTS[0]) as client:
            client.ask("DELETE", "user", "ann", {})
        wait_until(lambda: not lets_in(brokers[1], HOSTS[1], "second"), *nodes)


def ask(broker: BrokerProcess, path: str, body: dict[str, object] | None = None) -> tuple[int, str]:
    """Ask a broker's HTTP port; return the status and the answer."""
    login = b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
    asked = Request(
        f"http://{HOST}:{broker.port_of(2)}/api/v1{path}",
        headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        data=None if body is None else json.dumps(body).encode(),
    )
    try:
        with urlopen(asked, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_requests_reach_the_owner_of_a_virtual_host_through_any_broker(
    tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, name, spaces=SPACES) for name in "ab"]
    with ending(nodes):
        brokers = [node.served() for node in nodes]
        wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
        wait_until(lambda: owners(brokers[0]) == owners(brokers[1]), *nodes)
        for number, host in enumerate(HOSTS):
            for at, broker in enumerate(brokers):
                sent = ask(broker, f"/queues/q{at}/messages?host={host}", {"body": f"{number}"})
                assert sent[0] == 201, sent
            for broker in brokers:
                status, text = ask(broker, f"/queues?host={host}")
                assert status == 200
                assert [row["name"] for row in json.loads(text)["items"]] == ["q0", "q1"]
        assert ask(brokers[0], "/queues/none?host=one.example")[0] == 404
        assert ask(brokers[1], "/queues?host=nobody.example")[0] == 404
        frozen = owners(brokers[0])["default"]
        other = brokers[0 if frozen == "b" else 1]
        nodes["ab".index(str(frozen))].process.send_signal(signal.SIGKILL)
        wait_until(
            lambda: ask(other, f"/queues?host={HOSTS[0]}")[0] == 200,
            nodes[1 - "ab".index(str(frozen))],
        )
