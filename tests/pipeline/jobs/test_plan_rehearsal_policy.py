"""A policy's text, its strategy and its configuration are the same thing."""

from __future__ import annotations

import tomllib

import pytest

from covey.config.settings import Settings
from covey.groups.strategies.lru import LruMap
from covey.pipeline.errors import PipelineError
from covey.pipeline.jobs.plan_rehearsal import Policy, default_policies


@pytest.mark.parametrize("text", default_policies().split(","))
def test_a_policy_is_written_as_it_was_read(text: str) -> None:
    assert str(Policy.parse(text)) == text


def test_other_names_and_default_sizes_are_filled_in() -> None:
    assert str(Policy.parse(" cached")) == "lru:1024"
    assert str(Policy.parse("apollo")) == "consistent-hash:10"


def test_the_strategy_is_the_brokers_own_with_its_size() -> None:
    strategy = Policy.parse("lru:7").strategy()
    assert isinstance(strategy, LruMap)
    assert strategy.size == 7


@pytest.mark.parametrize("text", default_policies().split(","))
def test_the_toml_loads_to_the_policy(text: str) -> None:
    policy = Policy.parse(text)
    settings = Settings.model_validate(tomllib.loads(policy.toml('a."b"\\c')))
    assert settings.queues[0].id == 'a."b"\\c'
    plain = settings.queues[0].groups.model_copy(update={"header": None})
    assert plain == policy.settings


def test_the_toml_of_a_shared_policy_names_the_header_it_needs_and_no_host() -> None:
    assert Policy.parse("shared").toml("b/work") == (
        '[[queue]]\nid = "work"\n[queue.groups]\nstrategy = "shared"\n'
        'header = "JMSXGroupID" # the one your producers send\n'
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("lrru", "unknown group strategy"),
        ("simple:3", "simple has no size"),
        ("lru:0", "greater than or equal to 1"),
        ("lru:many", "must be a number"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, cause: str) -> None:
    with pytest.raises(PipelineError, match=rf"--policies: .*{cause}"):
        Policy.parse(text)
