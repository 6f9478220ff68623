"""Queue and group policies: other brokers' names, implied values, refused combinations."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from covey.config.queues import GroupSettings, QueueSettings, TopicSettings
from covey.groups import OPTIONS, spellings


@pytest.mark.parametrize(("given", "meant"), spellings().items())
def test_every_name_of_a_strategy_is_understood(given: str, meant: str) -> None:
    header = {"header": "H"} if meant == "shared" else {}
    queue = QueueSettings.model_validate({"groups": {"strategy": given, **header}})
    assert queue.groups.strategy == meant


def test_activemq_misspelt_bucket_element_gives_buckets_and_a_cache() -> None:
    groups = GroupSettings.model_validate(
        {"strategy": "messageGroupHashBucked", "cachedSize": "1024"}
    )
    assert (groups.strategy, groups.bucket_count, groups.cache_size) == ("hash-buckets", 1024, 1024)


def test_apollo_means_ten_ring_points_unless_a_number_is_given() -> None:
    assert GroupSettings.model_validate({"strategy": "apollo"}).ring_points == 10
    given = GroupSettings.model_validate({"strategy": "apollo", "ring-points": 20})
    assert (given.strategy, given.ring_points) == ("consistent-hash", 20)


def test_only_a_number_of_consumers_waits_one_second() -> None:
    alone = GroupSettings.model_validate({"consumersBeforeDispatchStarts": 2})
    both = GroupSettings.model_validate(
        {"consumersBeforeDispatchStarts": 2, "timeBeforeDispatchStarts": 200}
    )
    assert (alone.time_before_dispatch_ms, both.time_before_dispatch_ms) == (1000, 200)


def test_every_option_of_a_strategy_is_a_setting_with_its_default_and_limits() -> None:
    document = GroupSettings.model_json_schema()["properties"]
    for name, option in OPTIONS.items():
        assert getattr(GroupSettings(), name) == option.default
        assert type(getattr(GroupSettings(), name)) is (bool if option.is_yes_or_no else int)
        if not option.is_yes_or_no:
            limits = (document[name]["minimum"], document[name]["maximum"])
            assert limits == (option.least, option.most)


@pytest.mark.parametrize("points", [0, 1001, True, "many"])
def test_ring_points_lie_between_1_and_1000(points: object) -> None:
    with pytest.raises(ValidationError, match="ring_points"):
        GroupSettings.model_validate({"ring_points": points})


@pytest.mark.parametrize(
    ("given", "meant"),
    [("drop_head", "drop head"), ("drop-tail", "drop tail"), ("ring", "drop head")],
)
def test_full_policies_have_other_spellings(given: str, meant: str) -> None:
    assert QueueSettings.model_validate({"full_policy": given}).full_policy == meant


def test_sharing_without_a_header_is_refused_with_the_queue_and_the_option() -> None:
    with pytest.raises(ValidationError, match=r"queue orders: .*shared needs groups\.header"):
        QueueSettings.model_validate({"id": "orders", "groups": {"strategy": "shared"}})


@pytest.mark.parametrize(
    "option", [{"priorities": 10}, {"lvq_key": "symbol"}, {"priorities": 3, "lvq_key": "symbol"}]
)
@pytest.mark.parametrize("strategy", ["shared", "simple"])
def test_groups_on_priority_and_last_value_queues_are_refused(
    option: dict[str, object], strategy: str
) -> None:
    groups = {"strategy": strategy, "header": "H"}
    with pytest.raises(ValidationError) as refusal:
        QueueSettings.model_validate({"id": "orders", **option, "groups": groups})
    text = str(refusal.value)
    assert "queue orders: groups.header" in text
    assert all(name in text for name in option)


def test_priorities_without_a_group_header_are_fine() -> None:
    assert QueueSettings.model_validate({"priorities": 10}).priorities == 10


def test_apollo_places_the_slow_consumer_policy_in_either_table() -> None:
    given = {"slow_consumer_policy": "queue"}
    assert QueueSettings.model_validate(given).slow_consumer_policy == "queue"
    assert TopicSettings.model_validate(given).slow_consumer_policy == "queue"
