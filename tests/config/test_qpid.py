"""Declaring queues in Qpid's words, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.config.qpid import DeclareError, arguments_of, changed, declared, options_of
from covey.config.queues import GroupSettings, QueueSettings

BASE = QueueSettings()


def test_the_qpid_pages_arguments_make_a_shared_group_queue() -> None:
    arguments = {"qpid.group_header_key": "GROUP_KEY", "qpid.shared_msg_group": 1}
    settings = declared("MyMsgQueue", arguments, BASE)
    assert settings.groups.strategy == "shared"
    assert settings.groups.header == "GROUP_KEY"
    assert arguments_of(settings) == arguments
    assert options_of(settings) == ["--durable", "--group-header=GROUP_KEY", "--shared-groups"]


def test_a_group_header_without_sharing_means_sticky_groups() -> None:
    alone = declared("q", {"qpid.group_header_key": "G"}, BASE)
    assert (alone.groups.strategy, alone.groups.header) == ("simple", "G")
    assert options_of(alone) == ["--durable", "--group-header=G", "--group-strategy=simple"]


def test_a_named_strategy_stands_beside_a_group_header() -> None:
    header = {"qpid.group_header_key": "G"}
    assert declared("q", header | {"covey.groups.strategy": "lru"}, BASE).groups.strategy == "lru"
    policy = QueueSettings(groups=GroupSettings(strategy="hash-buckets"))
    assert declared("q", header, policy).groups.strategy == "hash-buckets"


def test_our_own_options_are_listed_under_their_names() -> None:
    arguments = {"covey.groups.strategy": "bucket", "covey.groups.bucket_count": 16}
    settings = declared("q", {"durable": 0} | arguments, BASE)
    assert options_of(settings) == ["--group-strategy=hash-buckets", "--group-buckets=16"]


def test_sharing_without_a_header_is_refused() -> None:
    with pytest.raises(
        DeclareError, match=r"q: qpid\.shared_msg_group needs qpid\.group_header_key"
    ):
        declared("q", {"qpid.shared_msg_group": 1}, BASE)


@pytest.mark.parametrize("other", [{"qpid.priorities": 5}, {"qpid.last_value_queue_key": "K"}])
def test_groups_are_refused_on_priority_and_last_value_queues(other: dict[str, object]) -> None:
    arguments = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}
    with pytest.raises(DeclareError, match=r"queue q: message groups are not supported"):
        declared("q", arguments | other, BASE)
    with pytest.raises(DeclareError, match=r"covey\.groups\.strategy and .* exclude each other"):
        declared("q", {"covey.groups.strategy": "simple"} | other, BASE)


def test_a_limit_without_a_policy_rejects_as_in_qpid() -> None:
    assert declared("q", {"qpid.max_count": 5}, BASE).full_policy == "reject"
    assert declared("q", {"qpid.max_size": "500"}, BASE).quota == 500
    ring = declared("q", {"qpid.max_count": 5, "qpid.policy_type": "ring"}, BASE)
    assert ring.full_policy == "drop head"
    own = declared("q", {"qpid.max_count": 5, "covey.full_policy": "block"}, BASE)
    assert own.full_policy == "block"
    assert declared("q", {"qpid.policy_type": "none"}, BASE).full_policy == BASE.full_policy


def test_flow_control_words_of_qpid_are_taken_and_do_nothing() -> None:
    assert declared("**", {"qpid.flow_stop_count": 7, "qpid.replicate": "all"}, BASE) == BASE


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({"qpid.max_cuont": 5}, r"did you mean qpid\.max_count"),
        ({"covey.nosuch": 1}, "unknown argument"),
        ({"covey.groups.nosuch": 1}, "unknown argument"),
        ({"covey.nak_limti": 3}, r"'covey.nak_limti'; did you mean covey.nak_limit\?"),
        ({"covey.groups.headr": "x"}, r"'covey.groups.headr'; did you mean covey.groups.header\?"),
        ({"covey.nak_limit": "x"}, "nak_limit: should be a valid integer, not 'x'"),
        ({"covey.id": "x"}, "unknown argument"),
        ({"covey.a.b": "x"}, "unknown argument"),
        ({"qpid.max_count": "many"}, "quota_messages"),
        ({"qpid.policy_type": "self-destruct"}, "none of"),
        ({"covey.groups.strategy": "best"}, "unknown group strategy"),
        ({"covey.groups.strategy": "shared"}, "needs"),
    ],
)
def test_nonsense_is_refused_with_the_queue_and_the_cause(
    arguments: dict[str, object], cause: str
) -> None:
    with pytest.raises(DeclareError, match=f"queue q: .*{cause}"):
        declared("q", arguments, BASE)


def test_a_declaration_goes_on_top_of_the_queues_policy() -> None:
    policy = QueueSettings(dlq="dead.*", nak_limit=3, groups=GroupSettings(strategy="lru"))
    settings = declared("q", {"qpid.max_count": 5}, policy)
    assert (settings.dlq, settings.nak_limit, settings.groups.strategy) == ("dead.*", 3, "lru")
    assert settings.id == "q"


GROUPS = st.builds(
    GroupSettings,
    strategy=st.sampled_from(["lru", "simple", "hash-buckets", "consistent-hash", "shared"]),
    header=st.just("G"),
    unsettled_max=st.integers(0, 5),
)
POLICIES = st.sampled_from(["block", "reject", "drop head", "drop tail"])
SETTINGS = st.builds(
    QueueSettings,
    quota=st.integers(0, 5),
    quota_messages=st.integers(0, 5),
    full_policy=POLICIES,
    dlq=st.sampled_from([None, "dead"]),
    durable=st.booleans(),
    nak_limit=st.integers(0, 3),
    auto_delete_after_s=st.sampled_from([0.0, 7.5, 30.0]),
    mirrored=st.booleans(),
    groups=GROUPS,
)


@given(SETTINGS)
def test_what_a_listing_shows_makes_the_same_queue_again(settings: QueueSettings) -> None:
    again = declared("**", arguments_of(settings), BASE)
    assert again == settings


def test_a_change_keeps_what_it_does_not_name() -> None:
    old = declared("q", {"covey.full_policy": "block", "qpid.group_header_key": "G"}, BASE)
    new = changed("q", {"qpid.max_count": 100}, old, BASE)
    assert (new.quota_messages, new.full_policy) == (100, "block")
    assert new.groups == old.groups
    assert changed("q", {}, new, BASE) == new


@pytest.mark.parametrize("key", ["qpid.max_count", "covey.quota_messages"])
def test_what_is_removed_is_as_the_queues_policy_says(key: str) -> None:
    policy = QueueSettings(quota_messages=7)
    old = declared("q", {"qpid.max_count": 100, "covey.nak_limit": 3}, policy)
    new = changed("q", {key: None}, old, policy)
    assert (new.quota_messages, new.nak_limit) == (7, 3)


def test_groups_can_be_removed_and_the_rest_of_them_stays() -> None:
    arguments = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}
    old = declared("q", arguments | {"covey.groups.unsettled_max": 5}, BASE)
    new = changed("q", {key: None for key in arguments}, old, BASE)
    assert (new.groups.header, new.groups.strategy) == (None, BASE.groups.strategy)
    assert new.groups.unsettled_max == 5


def test_an_unknown_argument_cannot_be_removed_either() -> None:
    with pytest.raises(DeclareError, match=r"unknown argument 'qpid\.max_cout'; did you mean"):
        changed("q", {"qpid.max_cout": None}, BASE, BASE)
    assert changed("q", {"qpid.file_size": None}, BASE, BASE).quota == BASE.quota
