"""Process: numbers that can be true of the process that runs the tests."""

from __future__ import annotations

import os
import time

from covey.protocols.process import Process, resident_bytes


def test_the_process_is_told_as_the_system_sees_it() -> None:
    process = Process()
    assert 0 < process.cpu_s()
    assert 1024 * 1024 < resident_bytes() < 2**40
    before = process.open_files()
    reading, writing = os.pipe()
    assert process.open_files() == before + 2
    os.close(reading)
    os.close(writing)
    assert before < process.open_files_max()
    assert process.started_s <= time.time()
