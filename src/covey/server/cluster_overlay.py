"""Cluster overlay: what operators set at run time through one broker applies to all of a cluster.

Users, permissions and policies that are set at run time are records of the virtual host through
which they were set (`core.management.overlay`), so they are in the database, and a receipt has
waited for that. Each virtual host's row counts the commits that have changed its records. A broker
that sees other counts than before reads all of them, once a second at most.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import anyio
import structlog

from covey.core.broker.shared import Entries
from covey.core.errors import RefusedError, StoreBusyError
from covey.core.management.overlay import KINDS, Overlay
from covey.core.storage.cluster import ClusterView
from covey.server.spaces import Spaces

if TYPE_CHECKING:
    from covey.core.storage.postgres.members import Members

Log = structlog.typing.FilteringBoundLogger


class ClusterOverlay:
    """One broker's overlay, kept equal to those of the other brokers."""

    def __init__(self, spaces: Spaces, log: Log) -> None:
        self._spaces = spaces
        self._log = log
        self._seen: object = None  # the counts when the records were read, and what was served here

    async def follow(self, members: Members, view: ClusterView) -> None:
        """Read the records of all virtual hosts, if any have changed, and apply them."""
        served = frozenset(self._spaces.directory.brokers)
        counts = ({row.space: row.records for row in view.spaces}, served)
        if counts == self._seen:
            return
        try:
            found = await anyio.to_thread.run_sync(members.records, KINDS)
        except StoreBusyError:
            return  # the next round tries again
        self._seen = counts
        self._apply(
            {
                space: {
                    kind: {name: json.loads(value) for name, value in entries.items()}
                    for kind, entries in kinds.items()
                }
                for space, kinds in found.items()
            }
        )

    def _apply(self, found: dict[str, Entries]) -> None:
        served = self._spaces.directory.brokers
        places = {space: entries for space, entries in found.items() if space not in served}
        shared = self._spaces.shared
        if places == shared.elsewhere:
            return
        try:
            Overlay(self._spaces.all_brokers).hear_all(places, time.monotonic())
            self._log.info("run_time_settings", note="those of other brokers were read")
        except RefusedError as error:
            self._log.warning("run_time_settings", note=f"of other brokers: {error.text}")
