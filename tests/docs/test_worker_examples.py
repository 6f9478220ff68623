"""Every example in docs/examples/worker runs against a real broker and says what it promises."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import covey
from covey.worker.testing import MemoryBroker, run
from tests.e2e.support import BrokerProcess

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "worker"

SAID = {
    "order_workflow.py": "".join(f"order-{number}: pay > pack > ship\n" for number in range(1, 6)),
    "group_cache.py": "".join(
        f"{name}: apple, bread, cheese, dates\n" for name in ("anna", "bert", "cleo")
    )
    + "12 messages, at most 3 loads\n",
    "exactly_once.py": "anna: 70\nbert: 55\ncleo: 7\n",
    "fan_out_fan_in.py": "squares: 385\nlarge: 3006005\n",
}


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_says_what_it_promises(broker: BrokerProcess, name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(broker.port)],
        env=dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID[name], "")


def test_the_smallest_one_is_tested_in_memory() -> None:
    shop = loaded("shop")

    async def scenario() -> None:
        broker = MemoryBroker(queues=[{"id": "orders", "dlq": "dead"}])
        await broker.send("orders", {"item": "lamp"}, {"nothing": 1}, group="order-17")
        await broker.work(shop.worker)
        assert shop.shipped == ["lamp"]
        assert await broker.bodies("dead") == ['{"nothing":1}']

    run(scenario())


def test_every_worker_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SAID, "shop.py"}


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
