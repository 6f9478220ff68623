"""Replay: what a start finds in the journal's files, and what is missing there.

Batches are numbered without a gap. So a confirmed batch that is missing is known by its number:
after the last batch that the tables know, between two batches, or up to the last number that was
noted as confirmed (`core.storage.sqlite.confirmed`). A last batch that is torn and was not
confirmed is no loss: a crash tore it, and nobody was promised anything.

If a whole segment is missing, the start is refused, since its file may be found again. To go on
without it, an operator removes the file of confirmed batches. A damaged segment is kept beside the
others under another name.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from covey.core.errors import StoreError
from covey.core.storage.sqlite.confirmed import Confirmed
from covey.core.storage.sqlite.journal import Journal
from covey.core.storage.sqlite.segments import Scan, Segment, segment_files

DAMAGED = ".damaged"


class Replay:
    """The journal that the last run left."""

    def __init__(
        self, directory: Path, size: int, folded: int, confirmed: Confirmed, *, is_new: bool
    ) -> None:
        """Read all segments; the tables know everything up to batch `folded`.

        `is_new` says that the store has never had segments, so none can be missing.
        """
        self.journal = Journal(directory, size)
        self.journal.number = folded
        self.gaps: list[tuple[int, int]] = []  # first and last batch of each
        self.damaged: list[Segment] = []
        self._confirmed = confirmed
        self._folded = folded
        self._last = folded  # the last batch that was found
        files = segment_files(directory)
        if not files and not is_new and confirmed.newest > folded:
            raise self._vanished(f"all segments of the journal in {directory} are gone")
        before: Segment | None = None
        try:
            for index, mark, path in files:
                self.journal.index = index
                segment = Segment(path, index, mark)
                self._take(segment, before)
                before = segment
        except BaseException:
            self.journal.close()
            raise
        if confirmed.newest > self._last:
            self.gaps.append((self._last + 1, confirmed.newest))
            self.damaged += list(self.journal.segments)[-1:]
            self.journal.number = confirmed.newest

    def _take(self, segment: Segment, before: Segment | None) -> None:
        """Add a segment to the journal; `before` is the file before it, even without any batch.

        Batches that are missing before a segment's first batch were in the file before it. If that
        file is there, it is damaged. If there is no file with that index, it has vanished.
        """
        scan = Scan(segment.content(), segment.mark)
        fresh = [batch for batch in scan.batches if batch.number > self._folded]
        for batch in fresh:
            if batch.number > self._last + 1:
                is_first = batch is scan.batches[0] and not scan.damages
                index_before = 0 if before is None else before.index
                if is_first and self._confirmed.newest and segment.index != index_before + 1:
                    name = segment.path.name
                    raise self._vanished(f"the segment of the journal before {name} is gone")
                self.gaps.append((self._last + 1, batch.number - 1))
                self.damaged.append(before if is_first and before is not None else segment)
            self._last = batch.number
        self.journal.recall(segment, fresh)

    def _vanished(self, what: str) -> StoreError:
        way_on = shlex.join(["rm", str(self._confirmed.path)])
        return StoreError(
            f"{what}, and it held batches that were confirmed: put it back, or go on without what"
            f" it held: {way_on}"
        )

    def losses(self) -> list[str]:
        """Return texts that say what is missing, without any names."""
        return [self._confirmed.told(first, last) for first, last in self.gaps]

    def set_damaged_aside(self) -> list[str]:
        """Rename damaged segments, for whoever repairs them; return the new names as texts.

        Called when all that can be read of them has been folded.
        """
        kept = []
        for segment in dict.fromkeys(self.damaged):
            if segment.path.exists():
                target = segment.path.with_name(segment.path.name + DAMAGED)
                segment.path.rename(target)
                kept.append(f"{segment.path.name} is kept as {target.name}")
        return kept
