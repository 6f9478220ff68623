"""Every example in docs/examples runs against a real broker and says what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.node import run_node

pytestmark = pytest.mark.interop

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RUN_S = 60

SAID = {
    "send_receive_stomp.py": "received: hello\n",
    "request_reply_stomp.py": (
        "is anybody there? IS ANYBODY THERE?\nwhat is two and two? WHAT IS TWO AND TWO?\n"
    ),
    "replay_browser.py": "all: one, two, three, four\nfrom the third on: three, four\n",
}


SAID_BY_AMQP = {
    "send_receive_proton.py": "received: hello\n",
    "ordered_groups_proton.py": "".join(
        f"{customer}: ordered, paid, shipped\n" for customer in ("ada", "bob", "cyd")
    ),
}


def run_example(name: str, port: int) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(port)],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_says_what_it_promises(broker: BrokerProcess, name: str) -> None:
    assert run_example(name, broker.port) == SAID[name]


def test_the_groups_example_keeps_each_customer_in_order_and_uses_both_workers(
    broker: BrokerProcess,
) -> None:
    lines = run_example("ordered_groups_stomp.py", broker.port).splitlines()
    workers = set()
    for line in lines:
        _, _, steps = line.partition(": ")
        words = steps.replace("(", "").replace(")", "").split()
        assert words[0::3] == ["ordered", "paid", "shipped"]
        workers |= set(words[1::3])
    assert (len(lines), workers) == (6, {"worker-1", "worker-2"})


@pytest.mark.parametrize("name", sorted(SAID_BY_AMQP))
def test_an_amqp_example_says_what_it_promises(broker: BrokerProcess, name: str) -> None:
    assert run_example(name, amqp_port(broker)) == SAID_BY_AMQP[name]


def test_the_rhea_example(broker: BrokerProcess) -> None:
    said = run_node(EXAMPLES / "rhea" / "send_receive.js", str(amqp_port(broker)))
    assert said == "received: hello from rhea\n"


def test_the_stompjs_example(broker: BrokerProcess) -> None:
    said = run_node(EXAMPLES / "stompjs" / "send_receive.js", str(broker.port))
    assert said == "received: hello from node\n"


def test_every_python_example_is_tested() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    elsewhere = {"ordered_groups_stomp.py", "uneven_work.py"}
    assert found == {*SAID, *SAID_BY_AMQP, *elsewhere}
