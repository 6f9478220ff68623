"""Browsing: copies for consumers that only look. They own nothing and keep a number.

A browser sees every message of the queue in order, acquired ones too unless it says otherwise,
while it has credit. At the end it is told so once, or waits for more. Nothing has to be repaired
when entries vanish under it, and it never holds anything up.
"""

from __future__ import annotations

from covey.core.board import Board
from covey.core.consumer import Consumer
from covey.core.entry import ACQUIRED, STORING


def browse(board: Board, browser: Consumer) -> None:
    """Copy on to a browser while it has credit and the board's budget lasts."""
    index = board.index
    window = browser.window
    while board.budget > 0 and browser.is_willing():
        entry = index.at_or_after(browser.cursor)
        if entry is None:
            if browser.browse_ends:
                browser.browse_ends = False
                board.browsers.remove(browser)
                browser.browse_ended()
            return
        if entry.state == STORING or entry.message is None:
            return
        board.budget -= 1
        browser.cursor = entry.seq + 1
        if entry.state == ACQUIRED:
            if not browser.sees_acquired:
                continue
        elif board.has_run_out(entry):
            continue  # its second will take it; dropping it here could free its group too late
        if browser.selector is None or browser.selector.matches(entry.content.lookup):
            if not window.is_automatic:
                window.count -= 1
                window.size -= entry.size
            browser.delivered += 1
            browser.deliver(entry)
