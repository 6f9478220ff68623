# Compiled by mypyc: see setup.py.
"""Browsing: copies for consumers that only look. A browser owns nothing and keeps a number.

A browser sees every message of the queue in order, while it has credit. It sees acquired messages
too, unless it says otherwise. It looks before anything new is handed out. At the end of the queue
the browser is told so once, or it waits for more. Nothing has to be repaired when entries vanish
under a browser, and a browser never holds anything up.

Bodies that are out of memory are read for the browser alone, a page ahead of its cursor
(`ReadAhead`). They are dropped once the browser has seen them. They do not count as the queue's
memory, so no other body has to leave it. So a look at a long backlog costs the queue's other
readers nothing, and a message needs no bookkeeping.

What was read ahead may be outdated when the browser gets there. Messages that vanished are passed
over. A message that was in memory when its page was read, and is not any more, is asked for again.
"""

from __future__ import annotations

from collections import deque

from covey.core.dispatch.state import DispatchState
from covey.core.model.consumer import Consumer
from covey.core.model.entry import ACQUIRED, STORING, Entry
from covey.core.model.message import Message


class ReadAhead:
    """The messages one browser will see next, in their order."""

    __slots__ = ("_found", "ahead", "is_asked")

    def __init__(self, seq: int) -> None:
        """Begin at a number."""
        self.ahead = seq  # where the next page begins
        self.is_asked = False  # a page is under way
        self._found: deque[tuple[int, Message]] = deque()

    def __len__(self) -> int:
        return len(self._found)

    def put(self, seq: int, message: Message) -> None:
        """Add a message that was read; numbers ascend."""
        self._found.append((seq, message))

    def take(self, seq: int) -> Message | None:
        """Return a message, None if it has to be read; drop the messages before it."""
        found = self._found
        while found:
            at, message = found[0]
            if at > seq:
                break
            found.popleft()
            if at == seq:
                return message
        if not self.is_asked:
            found.clear()
            self.ahead = seq
        return None


def browse(state: DispatchState, browser: Consumer) -> None:
    """Copy the next messages to a browser while it has credit and the state's budget lasts."""
    index = state.index
    while state.budget > 0:
        if not browser.is_willing():
            browser.window.stall(browser)
            return
        entry = index.look_from(browser.cursor)
        if entry is None:
            if browser.browse_ends:
                browser.browse_ends = False
                browser.window.browsing -= 1
                state.browsers.remove(browser)
                browser.browse_ended()
            return
        if entry.state == STORING:
            return
        message = entry.message
        if message is None:
            message = _take_ahead(browser, entry)
            if message is None:
                return  # the pager reads it
        state.budget -= 1
        browser.cursor = entry.seq + 1
        if entry.state == ACQUIRED:
            if not browser.sees_acquired:
                continue
        elif 0 < message.expires_ms <= state.wall_ms:
            continue  # the expiry timer drops it; a drop here could free its group too late
        if browser.selector is None or browser.selector.matches(message.lookup):
            _show(browser, entry, message)


def _take_ahead(browser: Consumer, entry: Entry) -> Message | None:
    read_ahead = browser.read_ahead
    if read_ahead is None:
        browser.read_ahead = ReadAhead(entry.seq)
        return None
    return read_ahead.take(entry.seq)


def _show(browser: Consumer, entry: Entry, message: Message) -> None:
    window = browser.window
    if not window.is_automatic:
        window.count -= 1
        window.size -= entry.size
    browser.delivered += 1
    if entry.message is not None:
        browser.deliver(entry)
        return
    entry.message = message  # for this call only: it must not stay in the queue's memory
    try:
        browser.deliver(entry)
    finally:
        entry.message = None
