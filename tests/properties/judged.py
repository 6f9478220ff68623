"""Judged: consumers and browsers that tell the referee what they get, and what they settle."""

from __future__ import annotations

from covey.core.model.consumer import Consumer, Window
from covey.core.model.entry import ACQUIRED, STORING, Entry, Outcome
from tests.doubles import NOBODY
from tests.properties.referee import Referee

WITHOUT_REFUSAL = {Outcome.DECLINED: Outcome.RELEASED, Outcome.UNFIT: Outcome.FAILED}


class JudgedConsumer(Consumer):
    """A consumer that tells the referee of each delivery."""

    def __init__(self, window: Window, referee: Referee) -> None:
        super().__init__(NOBODY, window)
        self.referee = referee
        self.is_finished = False  # the one group it took is done

    def deliver(self, entry: Entry) -> None:
        self.referee.delivered(self.id, entry.seq, entry.is_first)

    def group_done(self, group: str) -> None:
        self.is_finished = True
        self.referee.group_done(self.id, group)


class JudgedBrowser(Consumer):
    """A browser that checks what it sees: ascending numbers, nothing it may not see."""

    def __init__(self, window: Window, referee: Referee) -> None:
        super().__init__(NOBODY, window)
        self.referee = referee
        self.seen = 0
        self.has_ended = False

    def deliver(self, entry: Entry) -> None:
        slip = self.referee.slips[entry.seq]
        assert entry.seq > self.seen, f"the browser went back to {entry.seq}"
        assert entry.state != STORING, f"the browser saw {entry.seq} before its commit"
        is_over = entry.state != ACQUIRED and self.referee.is_expired(slip)
        assert not is_over, f"the browser saw {entry.seq}, which had expired"
        assert not self._missed(entry.seq), f"the browser skipped some before {entry.seq}"
        self.seen = entry.seq

    def browse_ended(self) -> None:
        assert not self._missed(self.referee.queue.next_seq), "the browser ended too early"
        self.has_ended = True
        self.referee.browser_ended()

    def judge_rest(self) -> None:
        """With credit left, a resting browser has seen everything it may see."""
        if not self.has_ended and self.is_willing() and self.referee.is_started:
            storing = [seq for seq, slip in self.referee.slips.items() if slip.state == "storing"]
            end = min(storing, default=self.referee.queue.next_seq)
            assert not self._missed(end), "the browser rests but has not seen everything"

    def _missed(self, before: int) -> list[int]:
        return [
            seq
            for seq, slip in self.referee.slips.items()
            if self.seen < seq < before
            and seq >= self.from_seq
            and not (slip.state == "held" and not self.sees_acquired)
            and not (slip.state != "held" and self.referee.is_expired(slip))
            and (self.selector is None or self.selector.text == f"colour = '{slip.colour}'")
            # One it stepped over while it was acquired does not count when it comes back.
            and (self.sees_acquired or not slip.was_delivered)
        ]


def outcome_of(referee: Referee, seq: int, outcome: Outcome) -> None:
    """Tell the referee how a delivery is settled."""
    if outcome is Outcome.ACCEPTED:
        referee.accepted(seq)
    elif outcome is Outcome.REJECTED:
        referee.rejected(seq)
    elif outcome is Outcome.FAILED:
        referee.failed(seq)
    elif outcome is Outcome.DECLINED or outcome is Outcome.UNFIT:
        if not referee.is_kept_from(seq):
            referee.rejected(seq)
            return
        referee.refused(seq)
        outcome_of(referee, seq, WITHOUT_REFUSAL[outcome])
    else:
        referee.released(seq)
