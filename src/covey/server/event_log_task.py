"""Event log task: runs the event log beside the broker, from the first event to the last file."""

from __future__ import annotations

from pathlib import Path

import anyio
import structlog

from covey.config.settings import EventLogSettings
from covey.core.events.event_log import EventLog, EventWriter
from covey.server.spaces import Spaces

# How long an event may wait before it is handed to the event log's writer.
FLUSH_S = 1.0

Log = structlog.typing.FilteringBoundLogger


def open_event_log(spaces: Spaces, settings: EventLogSettings) -> EventLog | None:
    """Open the event log and send it the events of all virtual hosts; None if it is turned off."""
    if settings.dir is None:
        spaces.listen(None)  # the next run's log must not seem to follow the last log directly
        return None
    writer = EventWriter(
        Path(settings.dir),
        spaces.instance,
        rotate_bytes=settings.rotate_size,
        rotate_age_s=settings.rotate_age_s,
        backlog_max=settings.backlog_max,
        allow_open_files=settings.allow_open_files,
    )
    first = spaces.directory.virtual_hosts[0].id
    events = EventLog(writer, settings.queues, spaces.shared.clock, first)
    spaces.listen(events)
    return events


async def keep_event_log(spaces: Spaces, events: EventLog, log: Log) -> None:
    """Hand events to the log's writer regularly, and finish the last file at the end."""
    try:
        while not events.taker.failure:
            dropped = events.dropped
            await anyio.sleep(FLUSH_S)
            events.flush()
            if events.dropped > dropped:
                log.error("events_dropped", count=events.dropped - dropped)
    finally:
        spaces.listen(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(events.close)
        if events.taker.failure:
            log.error("event_log_failed", reason=events.taker.failure)
