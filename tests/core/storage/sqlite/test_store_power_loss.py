"""Power loss: whatever sectors reached the disk, what was promised is there, whole.

`COVEY_CRASH_STATES` asks for more states than a normal run has time for.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.storage.sqlite.power import Deed, Disk, read_record
from tests.core.storage.sqlite.recorded import KEPT, PROMISED, QUEUES, body_of
from tests.core.storage.sqlite.support import Bench

ROOT = Path(__file__).parents[4]
BATCHES = 120
STATES = int(os.environ.get("COVEY_CRASH_STATES", "100"))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> list[Deed]:
    """Return what a store did to its disk in a few seconds of its life."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("record")
    shim, log, data = folder / "record_shim.so", folder / "log", folder / "data"
    source = Path(__file__).with_name("record_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    command = [sys.executable, "-m", "tests.core.storage.sqlite.recorded", str(data), str(BATCHES)]
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "LD_PRELOAD": str(shim),
        "RECORD_DIR": str(data),
        "RECORD_LOG": str(log),
    }
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)
    return read_record(log)


def troubles(record: list[Deed], states: int, folder: Path, seed: int) -> list[str]:
    """Lose power at so many moments; return what was broken by it."""
    chance = random.Random(seed)
    moments = sorted(chance.randrange(len(record)) for _ in range(states))
    disk, promised, found = Disk(), 0, []
    for moment, deed in enumerate(record):
        while moments and moments[0] == moment:
            moments.pop(0)
            state = folder / f"{moment}-{len(moments)}"
            state.mkdir()
            disk.lose_power(chance, state)
            trouble = look(state, promised)
            if trouble:
                found.append(f"before deed {moment}: {trouble}")
            shutil.rmtree(state)
        if deed.name == PROMISED:
            promised = int(deed.data or promised)
        else:
            disk.take(deed)
    return found


def look(folder: Path, promised: int) -> str:
    """Open what is left; say what is wrong with it."""
    try:
        bench = Bench(folder)
    except Exception as error:  # whatever it is, a start that fails is what we look for
        return f"does not open: {error}"
    try:
        places = bench.numbers()
        newest = max((seq for _, seq in places), default=0)
        numbers = range(max(1, newest - KEPT + 1), newest + 1)
        if newest not in (promised, promised + 1):
            return f"holds {newest} batches, promised were {promised}"
        if places != [(queue, seq) for queue in QUEUES for seq in numbers]:
            return f"a batch is there by half: {places}"
        found = {(body.queue, body.seq): body.body for body in bench.page(*places)}
        if found != {place: body_of(*place) for place in places}:
            return "a body is not what it was"
        return "; ".join(bench.store.damages)
    finally:
        bench.store.close()


def test_record_has_what_the_model_is_about(record: list[Deed]) -> None:
    syncs = [deed for deed in record if deed.what == "sync"]
    segments = [deed for deed in syncs if deed.name.startswith("journal-")]
    assert len(segments) >= BATCHES  # a receipt means that the disk was told to flush
    assert [deed for deed in record if deed.what == "rename"]  # a segment that is used again
    assert len([deed for deed in syncs if deed.name == "covey.db"]) >= 3  # checkpoints
    assert [deed for deed in record if deed.name == PROMISED and deed.data == b"%d\n" % BATCHES]


@pytest.mark.timeout(600)
def test_power_loss_at_any_moment_keeps_every_promise_and_every_batch_whole(
    record: list[Deed], tmp_path: Path
) -> None:
    assert troubles(record, STATES, tmp_path, seed=1) == []


def test_store_that_never_synced_would_be_caught(record: list[Deed], tmp_path: Path) -> None:
    lying = [deed for deed in record if deed.what != "sync" or deed.name == "."]
    assert troubles(lying, 30, tmp_path, seed=2) != []
