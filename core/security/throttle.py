"""Throttle: failed logins are counted by address and by user. Too many of them bring a ban.

Whoever fails `failures_max` times within `window_s` is banned for `ban_s`. During a ban no password
is checked, so guessing costs the broker nothing. The throttle is asked right before a password or a
proof is checked, and a failure is counted right after. So no more than `failures_max` wrong logins
are checked, however many are under way at once. Unknown user names are counted like others, so a
ban does not reveal which users exist. A ban is not prolonged by whoever asks again meanwhile.

Nobody must be able to ban somebody else. A user and an address from which that user has logged in
before are a pair with a count of its own. So failures of others with this name elsewhere, or of
others at this address, do not shut the user out. An IPv6 address counts as its /64, since a site
has a whole /64.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from cachetools import LRUCache

from covey.config.settings import BrokerSettings

FAILED_MAX: Final = 10_000  # counted names and addresses; beyond that the least recent is forgotten
KNOWN_MAX: Final = 10_000  # pairs of address and user that have logged in before
SITE_BITS: Final = 64  # of an IPv6 address: what one site has

Key = tuple[str, str, str]  # what is counted, an address or "", a user or ""


class FailedLogins:
    """The failures of one name, address or pair."""

    __slots__ = ("banned_until", "count", "since")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.since = now
        self.banned_until = 0.0


class Throttle:
    """Who has failed how often."""

    def __init__(self, failures_max: int = 0, window_s: float = 0.0, ban_s: float = 0.0) -> None:
        """Ban after `failures_max` failures; 0: never."""
        self.failures_max = failures_max
        self.window_s = window_s
        self.ban_s = ban_s
        self._failed: LRUCache[Key, FailedLogins] = LRUCache(FAILED_MAX)
        self._known: LRUCache[Key, None] = LRUCache(KNOWN_MAX)

    def wait_s(self, address: str, user: str, now: float) -> float:
        """Return how long this user is still banned at this address; 0 if not banned."""
        site = site_of(address)
        pair = ("pair", site, user)
        keys = [pair] if pair in self._known else [("address", site, ""), ("user", "", user)]
        bans = [self._failed[key].banned_until for key in keys if key in self._failed]
        return max([0.0, *[until - now for until in bans]])

    def failed(self, address: str, user: str, now: float) -> None:
        """Count a failed login."""
        if not self.failures_max:
            return
        site = site_of(address)
        for key in (("address", site, ""), ("user", "", user), ("pair", site, user)):
            failures = self._failures_of(key, now)
            if failures.banned_until > now:
                continue  # such as a malformed login, which is not asked about: no longer ban
            failures.count += 1
            if failures.count >= self.failures_max:
                failures.banned_until = now + self.ban_s
                failures.count = 0

    def succeeded(self, address: str, user: str) -> None:
        """Remember that this user has logged in from this address."""
        pair = ("pair", site_of(address), user)
        self._failed.pop(pair, None)
        self._known[pair] = None

    def _failures_of(self, key: Key, now: float) -> FailedLogins:
        failures = self._failed.get(key)
        if failures is None:
            failures = FailedLogins(now)
            self._failed[key] = failures
        elif now - failures.since > self.window_s:
            failures.count = 0
            failures.since = now
        return failures


def throttle_of(limits: BrokerSettings) -> Throttle:
    """Make the throttle that the broker's settings ask for."""
    return Throttle(limits.login_failures_max, limits.login_window_s, limits.login_ban_s)


def site_of(address: str) -> str:
    """Return what an address counts as: itself, or its /64 if it is an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), SITE_BITS), strict=False))
