"""Too many failed logins shut the door, for the guilty and as few others as can be."""

from __future__ import annotations

import pytest

from covey.core.security.throttle import FAILED_MAX, KNOWN_MAX, Throttle, site_of

HERE, THERE = "192.0.2.1", "198.51.100.7"


def failing(times: int, address: str = HERE, user: str = "ann", now: float = 0.0) -> Throttle:
    throttle = Throttle(3, window_s=60.0, ban_s=30.0)
    for _ in range(times):
        throttle.failed(address, user, now)
    return throttle


def test_the_door_shuts_at_the_limit_and_opens_after_the_ban() -> None:
    assert failing(2).wait_s(HERE, "ann", 0.0) == 0
    throttle = failing(3)
    assert throttle.wait_s(HERE, "ann", 10.0) == 20
    assert throttle.wait_s(HERE, "ann", 30.0) == 0


def test_an_address_is_banned_for_every_user_and_a_user_for_every_address() -> None:
    throttle = failing(3)
    assert throttle.wait_s(HERE, "bob", 0.0) > 0
    assert throttle.wait_s(THERE, "ann", 0.0) > 0
    assert throttle.wait_s(THERE, "bob", 0.0) == 0


def test_failures_are_forgotten_after_the_window() -> None:
    throttle = failing(2)
    throttle.failed(HERE, "ann", 61.0)
    assert throttle.wait_s(HERE, "ann", 61.0) == 0


def test_who_has_been_here_before_is_not_shut_out_by_others() -> None:
    throttle = Throttle(3, window_s=60.0, ban_s=30.0)
    throttle.succeeded(HERE, "ann")
    for _ in range(3):
        throttle.failed(HERE, "bob", 0.0)
        throttle.failed(THERE, "ann", 0.0)
    assert throttle.wait_s(HERE, "ann", 0.0) == 0
    for _ in range(3):
        throttle.failed(HERE, "ann", 0.0)
    assert throttle.wait_s(HERE, "ann", 0.0) > 0


def test_a_login_without_a_name_counts_once_for_its_address() -> None:
    assert failing(2, user="").wait_s(HERE, "ann", 0.0) == 0


def test_a_limit_of_0_never_bans() -> None:
    throttle = Throttle(0, window_s=60.0, ban_s=30.0)
    for _ in range(100):
        throttle.failed(HERE, "ann", 0.0)
    assert throttle.wait_s(HERE, "ann", 0.0) == 0


def test_strangers_cannot_fill_the_memory() -> None:
    throttle = Throttle(3, window_s=60.0, ban_s=30.0)
    for number in range(FAILED_MAX):
        throttle.failed(f"10.0.{number // 256}.{number % 256}", f"user{number}", 0.0)
    for number in range(KNOWN_MAX + 10):
        throttle.succeeded(HERE, f"user{number}")
    assert len(throttle._failed) <= FAILED_MAX
    assert len(throttle._known) == KNOWN_MAX


def test_who_goes_on_guessing_is_not_forgotten_for_the_strangers_that_come_meanwhile() -> None:
    throttle = Throttle(3, window_s=60.0, ban_s=30.0)
    for turn in range(3):
        throttle.failed(HERE, "ann", 0.0)
        for number in range(FAILED_MAX // 6):
            throttle.failed(
                f"10.{turn}.{number // 256}.{number % 256}", f"user{turn}.{number}", 0.0
            )
    assert throttle.wait_s(HERE, "ann", 0.0) > 0


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "not an address"),
    ],
)
def test_an_ipv6_address_is_its_site(address: str, site: str) -> None:
    assert site_of(address) == site


def test_what_fails_during_a_ban_does_not_prolong_it() -> None:
    throttle = Throttle(failures_max=3, window_s=60.0, ban_s=60.0)
    for now in (0.0, 1.0, 2.0, *[float(second) for second in range(3, 60)]):
        throttle.failed("192.0.2.1", "ada", now)
    assert throttle.wait_s("192.0.2.1", "ada", 61.0) == 1.0
    assert throttle.wait_s("192.0.2.1", "ada", 62.0) == 0.0
