"""The registry: every name a strategy is known by, and a sixth strategy as a user adds one."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError
from scripts.benchmark.workloads.workloads import flows

import covey.groups as groups
from covey.cli.qpid_config.options import declaration, make_parser
from covey.config.load import load
from covey.config.qpid import declared, options_of
from covey.config.queues import GroupSettings, QueueSettings
from covey.core.management.settings_check import flaws
from covey.core.model.consumer import Window
from covey.core.queue.owner import Unowned
from covey.core.queue.policy import strategy_of
from covey.core.queue.queue import Queue
from covey.groups import OPTIONS, STRATEGIES, UnknownStrategyError, find, make, spellings
from covey.groups.key import GroupKey
from covey.groups.owner_map import OwnerMap
from covey.groups.simulation.load import Load
from covey.groups.strategies.lru import StrictLruMap
from covey.groups.strategy import StrategyEntry
from covey.pipeline.jobs.plan_rehearsal import Policy, Scenario, default_policies
from tests.docs.strategy_tables import lacking, names_table
from tests.doubles import Letter, Reader

ROOT = Path(__file__).resolve().parents[2]
LOAD = Load([0.0, 0.1, 0.2, 0.3], [0.05] * 4, ["a", "b", "a", "c"])


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_is_made_by_its_name(name: str) -> None:
    strategy = make(name)
    assert type(strategy).__module__ == STRATEGIES[name].make.__module__
    assert strategy.name == name
    assert strategy.describe()["strategy"] == name


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("bucket", "hash-buckets"),
        ("messageGroupHashBucket", "hash-buckets"),
        ("messageGroupHashBucketFactory", "hash-buckets"),
        ("messageGroupHashBucked", "hash-buckets"),
        ("messageGroupHashBuckedFactory", "hash-buckets"),
        ("MessageGroupHashBucket", "hash-buckets"),
        ("cached", "lru"),
        ("CachedMessageGroupMap", "lru"),
        ("simpleMessageGroupMapFactory", "simple"),
        ("sticky", "simple"),
        ("hash-ring", "consistent-hash"),
        ("apollo", "consistent-hash"),
    ],
)
def test_the_names_of_other_brokers_are_known_in_any_case(alias: str, name: str) -> None:
    assert find(alias)[0].name == name
    assert make(alias).name == name


def test_no_name_means_two_strategies() -> None:
    names = [name for entry in STRATEGIES.values() for name in entry.spellings()]
    folded = [name.casefold().replace("_", "-") for name in names]
    assert len(set(folded)) == len(folded)
    assert set(spellings().values()) == set(STRATEGIES)


def test_each_option_reaches_its_strategy() -> None:
    assert make("bucket", bucket_count=7).describe()["bucket_count"] == 7
    assert make("cached", cache_size=8).describe()["cache_size"] == 8
    assert make("hash-ring", ring_points=9).describe()["ring_points"] == 9
    assert isinstance(make("lru", lru_strict_activemq=True), StrictLruMap)


def test_apollo_means_ten_points() -> None:
    assert make("Apollo").describe()["ring_points"] == 10


def test_an_option_that_is_given_wins_over_one_that_a_name_brings() -> None:
    assert make("apollo", ring_points=9).describe()["ring_points"] == 9


def test_an_option_of_no_strategy_is_refused() -> None:
    with pytest.raises(TypeError, match="'ring_point'"):
        make("apollo", ring_point=9)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("consistent hash", "did you mean 'consistent-hash'"),
        ("messageGroupHashBuket", "did you mean 'hash-buckets'"),
        ("zzz", "use shared, simple, lru, hash-buckets, consistent-hash"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, hint: str) -> None:
    with pytest.raises(UnknownStrategyError, match=f"{wrong}.*{hint}"):
        make(wrong)


def test_the_public_list_is_there() -> None:
    assert all(hasattr(groups, name) for name in groups.__all__)


def test_every_strategy_is_compiled() -> None:
    for entry in STRATEGIES.values():
        name = entry.make.__module__.rpartition(".")[2]
        text = (ROOT / "groups" / "strategies" / f"{name}.py").read_text()
        assert text.startswith("# Compiled by mypyc"), entry.name  # asked for each new group


def test_every_strategy_file_has_its_line_in_the_registry() -> None:
    files = {path.stem for path in (ROOT / "groups" / "strategies").glob("*.py")} - {"__init__"}
    modules = [entry.make.__module__.rpartition(".")[2] for entry in STRATEGIES.values()]
    assert sorted(modules) == sorted(files)


class FirstCome(OwnerMap):
    """A sixth strategy: a group belongs to its first consumer. Its size means nothing."""

    name: ClassVar[str] = "first-come"

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def describe(self) -> dict[str, int | str]:
        return {"strategy": self.name, "cache_size": self.size}


SIXTH = StrategyEntry(
    "first-come",
    "a group belongs to the consumer that took it first",
    lambda values: FirstCome(values["cache_size"]),
    options=(OPTIONS["cache_size"],),
    aliases=("firstComeMap",),
    profiles={"first-of-three": {"cache_size": 3}},
    planned_sizes=(7,),
)


@pytest.fixture
def sixth(monkeypatch: pytest.MonkeyPatch) -> StrategyEntry:
    """A line in the registry, for one test."""
    monkeypatch.setitem(STRATEGIES, SIXTH.name, SIXTH)
    return SIXTH


def queue_like(settings: QueueSettings) -> dict[str, int | str]:
    """Make the queue that such settings ask for; let a message go through it."""
    queue = Queue("orders", settings, strategy_of(settings), GroupKey(), Unowned())
    reader = Reader(Window(1))
    queue.join(reader, 0.0)
    letter = Letter()
    letter.group = "a"
    queue.enqueue(letter)
    queue.pump(0.0, 0, 100)
    assert reader.got == [1]
    return queue.state.strategy.describe()


def test_a_sixth_strategy_is_used_by_a_configuration_file(
    sixth: StrategyEntry, tmp_path: Path
) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[queue]]\nid = "orders"\n[queue.groups]\nstrategy = "first_of_three"\n')
    (settings,) = load(file, {}, {}, flaws).settings.queues
    assert queue_like(settings) == {"strategy": "first-come", "cache_size": 3}


def test_a_sixth_strategy_is_in_the_schema_and_in_the_refusal_of_another(
    sixth: StrategyEntry,
) -> None:
    document = GroupSettings.model_json_schema()["properties"]
    assert document["strategy"]["enum"] == [*STRATEGIES]
    with pytest.raises(ValidationError, match=r"there are shared, .*, first-come"):
        GroupSettings.model_validate({"strategy": "oldest"})


def test_a_sixth_strategy_is_used_by_the_command_line(sixth: StrategyEntry) -> None:
    parser = make_parser("")
    assert ", first-come" in " ".join(parser.format_help().split())
    words = ["add", "queue", "orders", "--group-strategy=firstComeMap", "--group-cache-size=5"]
    settings = declared("orders", declaration(parser.parse_args(words)), QueueSettings())
    assert queue_like(settings) == {"strategy": "first-come", "cache_size": 5}
    assert options_of(settings) == ["--group-strategy=first-come", "--group-cache-size=5"]


def test_a_sixth_strategy_is_rehearsed_by_plan(sixth: StrategyEntry) -> None:
    assert default_policies().endswith(",first-come:7")
    policy = Policy.parse("first-come:9")
    assert 'strategy = "first-come"\ncache_size = 9\n' in policy.toml("orders")
    result = Scenario(policy, 2, 1.0, 10).play(LOAD)
    assert (result.messages, result.order_lost) == (len(LOAD.times), 0)


def test_a_sixth_strategy_is_measured_by_the_benchmark(sixth: StrategyEntry) -> None:
    assert "groups first-come" in [flow.name for flow in flows()]


def test_a_sixth_strategy_is_missed_on_the_pages(sixth: StrategyEntry) -> None:
    assert [place.partition(":")[0] for place in lacking()] == [
        "docs/groups.md",
        "docs/groups.md",
        "docs/groups.md",
        "docs/declaring.md",
        "docs/pipeline.md",
        "README.md",
    ]
    assert "| `first-come` | `firstComeMap`, `first-of-three` (cache_size 3) |" in names_table()
