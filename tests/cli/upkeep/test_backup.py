"""`covey backup` and `covey restore`, beside a broker and beside a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.support import Terminal
from tests.core.storage.sqlite.support import House


def _bodies(data: Path, queue: str) -> int:
    house = House(data / "default")
    count = house.queue(queue).state.index.count
    house.store.close()
    return count


def test_a_backup_beside_the_broker_is_restored_with_all_it_had(
    terminal: Terminal, tmp_path: Path
) -> None:
    data, saved = str(terminal.broker.folder / "data"), str(tmp_path / "saved")
    terminal.covey("message", "send", "bk", "x", "--count", "50", "--group", "g")
    said = terminal.run_covey("backup", saved, "--data", data, "--json")
    assert (said.code, list(json.loads(said.out)["virtual_hosts"])) == (0, ["default"])
    terminal.covey("message", "send", "bk", "later")
    said = terminal.run_covey("restore", saved, "--data", str(tmp_path / "again"))
    assert (said.code, said.out.startswith("default: ")) == (0, True)
    assert _bodies(tmp_path / "again", "bk") == 50


def test_refusals_say_what_to_do(terminal: Terminal, tmp_path: Path) -> None:
    data = str(terminal.broker.folder / "data")
    said = terminal.run_covey("restore", str(tmp_path), "--data", str(tmp_path / "new"))
    assert (said.code, "is no backup" in said.err) == (1, True)
    (tmp_path / "some").touch()
    said = terminal.run_covey("backup", str(tmp_path), "--data", data)
    assert (said.code, "is there, and not empty" in said.err) == (1, True)
    config = tmp_path / "covey.toml"
    config.write_text('[store]\nkind = "postgres"\ndsn = "dbname=covey"\n')
    said = terminal.run_covey("backup", str(tmp_path / "saved"), "--config", str(config))
    assert (said.code, "pg_dump" in said.err) == (1, True), said.err
    said = terminal.run_covey("backup", "x", "--config", str(config), "--data", data)
    assert said.code == 2


def test_a_killed_backup_leaves_nothing_that_a_restore_would_take(
    terminal: Terminal, tmp_path: Path
) -> None:
    house = House(tmp_path / "data" / "default")
    for _ in range(500):
        house.send("q", bytes(4000), "g")
    house.rest()
    house.store.close()
    saved, partial = tmp_path / "saved", tmp_path / "saved.partial"
    command = [sys.executable, "-m", "covey", "backup", str(saved)]
    process = subprocess.Popen([*command, "--data", str(tmp_path / "data")])
    deadline = time.monotonic() + 20
    while not partial.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not saved.exists():  # else it was faster than the kill
        said = terminal.run_covey("restore", str(saved), "--data", str(tmp_path / "again"))
        assert (said.code, (tmp_path / "again").exists()) == (1, False)
    again = str(tmp_path / "second")
    assert terminal.run_covey("backup", again, "--data", str(tmp_path / "data")).code == 0
