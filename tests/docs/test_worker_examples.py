"""Every example in docs/examples/worker runs against a real broker and says what it promises."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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
    assert run_example(name, str(broker.port)) == SAID[name]


def run_example(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        env=dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_smallest_one_is_tested_in_memory() -> None:
    shop = loaded("shop")

    async def scenario() -> None:
        broker = MemoryBroker(queues=[{"id": "orders", "dlq": "dead"}])
        await broker.send("orders", {"item": "lamp"}, {"nothing": 1}, group="order-17")
        await broker.work(shop.worker)
        assert shop.shipped == ["lamp"]
        assert await broker.bodies("dead") == ['{"nothing":1}']

    run(scenario())


def test_the_throughput_is_measured_for_each_contender(broker: BrokerProcess) -> None:
    lines = run_example("throughput.py", str(broker.port), "127.0.0.1", "300").splitlines()
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        "| covey.worker",
        "| covey.worker, batch=50",
        "| naive loop",
        "| stomp.py",
    ]


def test_the_code_on_the_page_is_python() -> None:
    page = (EXAMPLES.parents[1] / "worker.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        compile(block, "worker.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", ["README.md", "docs/worker.md"])
def test_the_first_program_of_a_page_works(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES.parents[2] / page).read_text()
    (block,) = re.findall(r"\A.*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    program, _, rest = block.partition("asyncio.run(worker.run())")
    assert rest.lstrip().startswith("#")
    names: dict[str, Any] = {}
    exec(compile(program, page, "exec"), names)

    async def scenario() -> None:
        broker = MemoryBroker()
        await broker.send("orders", {"item": 1}, {"item": 2}, group="order-17")
        await broker.work(names["worker"])

    run(scenario())
    # structlog's own default is to print, if another test has loaded it.
    said = [line for line in capsys.readouterr().out.splitlines() if "worker_" not in line]
    assert said == ["order-17 {'item': 1}", "order-17 {'item': 2}"]


def test_every_worker_example_is_tested() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    assert found == {*SAID, "shop.py", "throughput.py"}


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
