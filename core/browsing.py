"""Browsing: copies for consumers that only look. They own nothing and keep a number.

A browser sees every message of the queue in order, acquired ones too unless it says otherwise,
while it has credit; it looks before anything new is handed out. At the end it is told so once, or
waits for more. Nothing has to be repaired when entries vanish under it, and it never holds anything
up. Bodies that are out of memory are read for it alone (`core.glances`).
"""

from __future__ import annotations

from covey.core.board import Board
from covey.core.consumer import Consumer
from covey.core.entry import ACQUIRED, STORING, Entry
from covey.core.glances import Glances
from covey.core.message import Message


def browse(board: Board, browser: Consumer) -> None:
    """Copy on to a browser while it has credit and the board's budget lasts."""
    index = board.index
    while board.budget > 0 and browser.is_willing():
        entry = index.at_or_after(browser.cursor)
        if entry is None:
            if browser.browse_ends:
                browser.browse_ends = False
                board.browsers.remove(browser)
                browser.browse_ended()
            return
        if entry.state == STORING:
            return
        message = entry.message
        if message is None:
            message = _glance(browser, entry)
            if message is None:
                return  # the pager reads it
        board.budget -= 1
        browser.cursor = entry.seq + 1
        if entry.state == ACQUIRED:
            if not browser.sees_acquired:
                continue
        elif 0 < message.expires_ms <= board.wall_ms:
            continue  # its second will take it; dropping it here could free its group too late
        if browser.selector is None or browser.selector.matches(message.lookup):
            _show(browser, entry, message)


def _glance(browser: Consumer, entry: Entry) -> Message | None:
    glances = browser.glances
    if glances is None:
        browser.glances = Glances(entry.seq)
        return None
    return glances.take(entry.seq)


def _show(browser: Consumer, entry: Entry, message: Message) -> None:
    window = browser.window
    if not window.is_automatic:
        window.count -= 1
        window.size -= entry.size
    browser.delivered += 1
    if entry.message is not None:
        browser.deliver(entry)
        return
    entry.message = message  # lent: it stays out of the queue's memory, whatever happens
    try:
        browser.deliver(entry)
    finally:
        entry.message = None
