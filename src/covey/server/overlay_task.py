"""Overlay task: what an operator sets at one worker at run time applies to all workers.

Users, permissions and policies that operators set are kept by the virtual host through which they
were set (`core.management.overlay`), so by one worker. That worker tells the others each change. A
worker that starts exchanges all its settings with the others. A worker that does not answer is told
again, until it answers or is restarted.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import anyio
import structlog

from covey.core.errors import RefusedError
from covey.core.management.overlay import KINDS, Overlay
from covey.server.neighbours import Neighbours
from covey.server.spaces import Spaces

AGAIN_S = 1.0

Log = structlog.typing.FilteringBoundLogger


class SharedOverlay:
    """One worker's overlay, kept equal to those of the other workers."""

    def __init__(self, spaces: Spaces, neighbours: Neighbours, log: Log) -> None:
        self._spaces = spaces
        self._neighbours = neighbours
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        neighbours.hear = self.hear
        spaces.shared.entry_changed = self._changed

    async def exchange(self) -> None:
        """Exchange run-time settings with all other workers that answer."""
        async with anyio.create_task_group() as tasks:
            for number in self._neighbours.seat.others:
                tasks.start_soon(self._exchange, number)

    async def _exchange(self, number: int) -> None:
        try:
            said = await self._neighbours.tell(number, self._all())
        except (RefusedError, OSError, EOFError, TimeoutError):
            return  # that worker is not there yet: it exchanges with us when it starts
        self._take(json.loads(said))

    def hear(self, news: bytes) -> bytes:
        """Apply another worker's news; return all that is set here."""
        self._take(json.loads(news))
        return self._all()

    def _take(self, said: Any) -> None:
        """Apply another worker's news; it runs the same release, so the news needs no checks."""
        place, now = said["from"], time.monotonic()
        overlay = Overlay(self._spaces.brokers)
        try:
            if "entries" in said:
                overlay.hear(place, said["entries"], now)
            else:
                kind, name, fields = said["change"]
                overlay.hear_change(place, kind, name, fields, now)
        except RefusedError as error:
            self._log.warning("run_time_settings", note=f"of worker {place}: {error.text}")

    def _all(self) -> bytes:
        overlay = Overlay(self._spaces.brokers)
        entries = {kind: overlay.own_entries(kind) for kind in KINDS}
        return json.dumps({"from": self._neighbours.here, "entries": entries}).encode()

    def _changed(self, kind: str, name: str, fields: dict[str, object] | None) -> None:
        """Tell the other workers of a change."""
        change = {"from": self._neighbours.here, "change": [kind, name, fields]}
        news = json.dumps(change).encode()
        for number in self._neighbours.seat.others:
            task = asyncio.get_running_loop().create_task(self._tell(number, news))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell(self, number: int, news: bytes) -> None:
        while True:
            try:
                await self._neighbours.tell(number, news)
                return
            except (RefusedError, OSError, EOFError, TimeoutError):
                await anyio.sleep(AGAIN_S)
