"""Frames: rows of an Arrow batch as SEND frames, column by column.

    SEND LF destination:PLACE [LF persistent:true] [LF message-id:ID] [LF GROUP_HEADER:GROUP]
    [LF more] [LF content-length:SIZE] LF LF value NUL LF

A column becomes one piece of every row's head. Whether a text of it needs an escape is asked once
for all of them, since nearly none ever does: row by row this cost a task most of its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from covey.client.stomp import VERSION
from covey.pipeline.client import destination
from covey.pipeline.options import WriteOptions
from covey.protocols.stomp.headers import header_lines

# Lines that would change the frame itself, or what is ours to say.
NOT_SENT: Final = frozenset(
    "destination content-length receipt transaction message-id subscription ack".split()
)
SPECIAL: Final = "\\\n\r:\0"  # what a header's value cannot hold as it is

Pieces = list[str]


def frames_of(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[bytes]:
    """Write the rows of a batch, in their order."""
    columns = [_places(options, batch)]
    if options.id_column:
        columns.append(_lines("message-id", _texts(batch, options.id_column)))
    if options.group_column:
        columns.append(_lines(options.group_header, _texts(batch, options.group_column)))
    if "headers" in batch.schema.names:
        columns.append([_more(pairs) for pairs in batch.column("headers").to_pylist()])
    values = batch.column("value").to_pylist()
    for value, *pieces in zip(values, *columns, strict=True):
        head = "".join(pieces).encode()
        body = value.encode() if isinstance(value, str) else value
        if body:
            yield b"%s\ncontent-length:%d\n\n%s\0\n" % (head, len(body), body)
        else:
            yield b"%s\n\n\0\n" % head


def _places(options: WriteOptions, batch: pa.RecordBatch) -> Pieces:
    if options.queue:
        targets = [destination(options.queue)] * batch.num_rows
    else:
        targets = [destination(str(name)) for name in batch.column("queue").to_pylist()]
    persistent = "\npersistent:true" if options.is_persistent else ""
    return [f"SEND{line}{persistent}" for line in _lines("destination", targets)]


def _texts(batch: pa.RecordBatch, name: str) -> Pieces:
    values = batch.column(name).to_pylist()
    return ["" if value is None else str(value) for value in values]


def _lines(name: str, texts: Pieces) -> Pieces:
    """Return a header line for each text, nothing for an empty one."""
    together = name + "".join(texts)
    if any(together.find(character) >= 0 for character in SPECIAL):
        return [_line(name, text) if text else "" for text in texts]
    return [f"\n{name}:{text}" if text else "" for text in texts]


def _line(name: str, text: str) -> str:
    return header_lines([(name, text)], VERSION).decode()


def _more(pairs: list[tuple[str, Any]] | None) -> str:
    if not pairs:
        return ""
    kept = [pair for pair in pairs if pair[0] not in NOT_SENT and pair[1]]
    return header_lines(kept, VERSION).decode()
