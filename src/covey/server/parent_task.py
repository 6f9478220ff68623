"""Parent task: what a worker process hears from its parent, and tells it.

When the parent dies, the system kills the worker (`parent`). Where the system does not do that, the
worker sees the end of the line and stops in order, as on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from covey.core.errors import RefusedError
from covey.server.dealing import Seat

MESSAGE_MAX: Final = 4 * 1024 * 1024

Log = structlog.typing.FilteringBoundLogger


class ParentLine:
    """The line to the parent."""

    def __init__(self, control: socket.socket, seat: Seat, log: Log) -> None:
        self._control = control
        self._seat = seat
        self._log = log

    def ready(self) -> None:
        """Tell the parent that this worker serves."""
        self._tell({"word": "ready"})

    def reloaded(self) -> None:
        """Tell the parent that this worker was asked to reload, and has done so."""
        self._tell({"word": "reloaded", "table": self._seat.table})

    async def keep(self, welcome: Callable[[], None], reload: Callable[[], object]) -> None:
        """Do what the parent asks, until the line ends."""
        self._control.setblocking(False)
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._control, MESSAGE_MAX):
            message = json.loads(data)
            if message["word"] == "welcome":
                welcome()
            elif message["word"] == "reload":
                self._seat.table = message["table"]
                with suppress(RefusedError):  # the refusal is in the log
                    reload()
        self._log.error("parent_is_gone")
        os.kill(os.getpid(), signal.SIGTERM)

    def _tell(self, message: Mapping[str, object]) -> None:
        with suppress(OSError):  # the parent is gone, so this worker ends as well
            self._control.send(json.dumps(message).encode())
