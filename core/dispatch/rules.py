# Compiled by mypyc: see setup.py.
"""Rules: what a queue's policy says beside the strategy, in the units the dispatch works in.

Settings are what a user writes (milliseconds, names, words); rules are what the hot path reads.
The rules are made anew when a policy changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.config.queues import QueueSettings


@dataclass(slots=True)
class GroupRules:
    """The parts of a queue's group policy that are not the strategy's."""

    unsettled_max: int = 0  # messages of one group; 0 = as many as its owner has credit for
    park_after_failures: int = 0  # 0 = never
    drain_limit_s: float = 0.0  # report a drain that takes longer; 0 = never
    sticky_return_s: float = 0.0
    consumers_before_dispatch: int = 0
    time_before_dispatch_s: float = 0.0
    forget_idle_s: float = 0.0
    rebalance_after_s: float = 0.0  # time from a consumer's join to a rebalance; 0 = never
    rebalance_rate: int = 100  # groups a second
    spill_after_s: float = 0.0  # a group leaves an owner that has no credit; 0 = never
    group_rate: float = 0.0  # messages of one group a second; 0 = no limit
    counts_idle: bool = False  # groups without messages count in a consumer's share
    delivery_deadline_s: float = 0.0  # longest time a consumer holds a message; 0 = no limit
    ends_late_connections: bool = False  # disconnect a consumer that misses the deadline
    is_selector_strict: bool = False  # a head that no selector admits blocks its group
    is_round_robin: bool = True
    tells_first: bool = True  # mark the first message of each ownership


def rules_of(settings: QueueSettings) -> GroupRules:
    """Take what the dispatch needs out of a queue's policy."""
    groups = settings.groups
    return GroupRules(
        unsettled_max=groups.unsettled_max,
        park_after_failures=groups.park_after_failures,
        drain_limit_s=groups.drain_limit_s,
        sticky_return_s=groups.sticky_return_s,
        consumers_before_dispatch=groups.consumers_before_dispatch,
        time_before_dispatch_s=groups.time_before_dispatch_ms / 1000,
        forget_idle_s=groups.forget_idle_s,
        rebalance_after_s=groups.rebalance_after_s,
        rebalance_rate=groups.rebalance_rate,
        spill_after_s=groups.spill_after_ms / 1000,
        group_rate=groups.group_rate,
        counts_idle=groups.count_idle_groups,
        delivery_deadline_s=settings.delivery_deadline_s,
        ends_late_connections=settings.deadline_action == "disconnect",
        is_selector_strict=groups.selector_order == "strict",
        is_round_robin=settings.round_robin,
        tells_first=groups.first_for_consumer,
    )


def retry_delay(settings: QueueSettings, failures: int) -> float:
    """Return how many seconds a message waits after so many failures; 0 for none."""
    if not settings.redelivery_delay_ms:
        return 0.0
    grown = settings.redelivery_delay_ms * settings.redelivery_backoff ** (failures - 1)
    return min(grown, settings.redelivery_delay_max_ms) / 1000
