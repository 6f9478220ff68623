"""Commands on groups and dead letters over kills: nothing is lost, nothing is in two places."""

from __future__ import annotations

import json
import signal
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess, running_broker

MESSAGES = 2400  # several portions of a job
SETTINGS = """
[[queue]]
id = "orders"
dlq = "dead"
"""


def ask(broker: BrokerProcess, path: str, body: object = None, method: str = "POST") -> Any:
    """Ask the HTTP API; the answer as plain data."""
    login = b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
    request = Request(
        f"http://{HOST}:{broker.port_of(2)}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        data = answer.read()
    return json.loads(data) if data else None


def fill(broker: BrokerProcess, count: int) -> None:
    with broker.client() as client:
        for number in range(count):
            headers = {"destination": "/queue/orders", "persistent": "true"}
            headers["message_group"] = "bad" if number % 3 else "good"
            client.send("SEND", headers, str(number).encode())
        client.sync()


def browsed(broker: BrokerProcess, queue: str) -> list[int]:
    with broker.client() as client:
        client.send("SUBSCRIBE", {"id": "b", "destination": f"/queue/{queue}", "browser": "true"})
        found: list[int] = []
        while True:
            frame = client.frame()
            if frame.headers(client.version).get("browser") == "end":
                return found
            found.append(int(frame.body))


@pytest.mark.slow
@pytest.mark.parametrize(("command", "pause_ms"), [("move", 0), ("move", 40), ("dead-letter", 20)])
def test_a_kill_leaves_a_prefix_of_the_group_where_it_goes(
    tmp_path: Path, command: str, pause_ms: int
) -> None:
    body = {"to": "hospital"} if command == "move" else {"reason": "bad"}
    target = "hospital" if command == "move" else "dead"

    def order() -> None:
        with suppress(OSError, HTTPException):  # the broker dies
            ask(broker, f"queues/orders/groups/bad/{command}", body)

    with running_broker(tmp_path, config=SETTINGS) as broker:
        fill(broker, MESSAGES)
        commander = Thread(target=order)
        commander.start()
        commander.join(pause_ms / 1000)
        broker.signal(signal.SIGKILL)
        commander.join()
    with running_broker(tmp_path, config=SETTINGS) as broker:
        gone, left = browsed(broker, target), browsed(broker, "orders")
        bad = [number for number in range(MESSAGES) if number % 3]
        assert gone == bad[: len(gone)]
        assert sorted(gone + left) == list(range(MESSAGES))
        # Asked for again, it does the rest.
        answer = ask(broker, f"queues/orders/groups/bad/{command}", body)
        assert answer.pop("held") == 0
        assert list(answer.values()) == [len(bad) - len(gone)]
        assert browsed(broker, target) == bad


@pytest.mark.slow
def test_a_retry_goes_on_after_a_kill_and_keeps_each_groups_order(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=SETTINGS) as broker:
        fill(broker, MESSAGES)
        for group in ("bad", "good"):
            ask(broker, f"queues/orders/groups/{group}/dead-letter", {"reason": "r"})

        def order() -> None:
            with suppress(OSError, HTTPException):
                ask(broker, "queues/dead/retry", {})

        commander = Thread(target=order)
        commander.start()
        commander.join(0.05)
        broker.signal(signal.SIGKILL)
        commander.join()
    with running_broker(tmp_path, config=SETTINGS) as broker:
        done = len(browsed(broker, "orders"))
        if done < MESSAGES:  # else all of it was done, and nothing is left of the queue
            told = {"retried": MESSAGES - done, "held": 0}
            assert ask(broker, "queues/dead/retry") == told
        assert browsed(broker, "dead") == []
        found = browsed(broker, "orders")
        for remainders in ([0], [1, 2]):
            ours = [number for number in found if number % 3 in remainders]
            assert ours == sorted(ours)
        assert sorted(found) == list(range(MESSAGES))


def test_a_parked_group_stays_parked_over_a_kill_with_messages_and_without(tmp_path: Path) -> None:
    with running_broker(tmp_path, config=SETTINGS) as broker:
        fill(broker, 6)
        ask(broker, "queues/orders/groups/bad/park", {"reason": "ask Ann"})
        ask(broker, "queues/orders/groups/later/park", {})
        ask(broker, "queues/orders/groups/good/park")
        ask(broker, "queues/orders/groups/good/unpark")
        broker.signal(signal.SIGKILL)
    with running_broker(tmp_path, config=SETTINGS) as broker:
        shown = ask(broker, "queues/orders/groups?parked=true", method="GET")
        told = {each["group"]: (each["parked_by"], each["parked_why"]) for each in shown["items"]}
        assert told == {"bad": (LOGIN, "ask Ann"), "later": (LOGIN, "")}
        with broker.client() as client:
            headers = {"destination": "/queue/orders", "message_group": "later"}
            client.send("SEND", headers, b"99")
            client.subscribe("/queue/orders", ack="client-individual")
            assert [client.frame().body for _ in range(2)] == [b"0", b"3"]
            ask(broker, "queues/orders/groups/later/unpark")
            assert client.frame().body == b"99"
