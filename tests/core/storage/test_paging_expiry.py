"""Paging and expiry: a message that is out of memory runs out like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import BrokerSettings, Settings
from covey.core.model.consumer import Window
from covey.core.selector import compile_selector
from covey.core.storage import paging
from covey.core.storage import paging as page
from tests.core.storage.sqlite.support import House, Note
from tests.core.support import Reader

BODY = b"x" * 100
WINDOW = 10 * len(BODY)


def test_messages_set_aside_and_out_run_out_into_their_dead_letter_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "PAGE_MESSAGES", 8)
    monkeypatch.setattr(paging, "LOADED_MIN", 16)
    monkeypatch.setattr(paging, "SPILL_MESSAGES", 1)
    broker = BrokerSettings(memory_window_queue=WINDOW, memory_window_total=10 * WINDOW)
    settings = Settings(broker=broker, queue=(QueueSettings(id="a", dlq="dead", dlq_expired=True),))
    house = House(tmp_path, settings)
    for number in range(60):
        note = Note(b"%08d" % number + BODY, "g")
        note.expires_ms = 5000
        house.publish("a", note)
    house.rest()
    picky = Reader(Window(10))
    picky.selector = compile_selector("size > 1000")
    house.queue("a").join(picky, 0.0)
    house.rest()
    assert house.queue("a").storage_state.out > 0
    house.now = 10.0
    house.queue("a").mark()
    house.rest()
    assert house.queue("a").state.index.count == 0
    assert house.queue("dead").state.index.count == 60
    house.store.close()
