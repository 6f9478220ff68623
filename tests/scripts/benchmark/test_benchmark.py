"""What the benchmark asks for, measures and writes down.

Figures and ratios, and the page they become.

What is asked of a workload, by build.

What a newcomer asks first is answered at once, before anything is set up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.benchmark import report
from scripts.benchmark.__main__ import named_build
from scripts.benchmark.goals import GOALS, verdict
from scripts.benchmark.options import parser
from scripts.benchmark.workloads.workloads import NAMES, OTHERS, cases, flows

from covey.bench.result import Result, figure, percentile, ratio
from covey.pipeline.__main__ import JOBS


def result(contender: str, *values: float, unit: str = "deliveries/s") -> Result:
    return Result("queue, 128 B", contender, unit, list(values))


@pytest.mark.parametrize(
    ("value", "text"), [(1_234_567.0, "1,235k"), (1234.0, "1,234"), (12.345, "12.3"), (0.5, "0.5")]
)
def test_a_figure_has_the_digits_that_mean_something(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0


def test_a_ratio_is_by_medians_and_ranges_from_worst_to_best() -> None:
    assert ratio(result("covey", 90, 100, 120), result("peer", 40, 50, 60)) == (2.0, 1.5, 3.0)


def test_a_time_is_better_when_it_is_shorter() -> None:
    ours, theirs = result("covey", 50, unit="us"), result("peer", 100, unit="us")
    assert ratio(ours, theirs) == (2.0, 2.0, 2.0)


def test_a_busy_machine_is_counted() -> None:
    noisy = result("covey", 1, 2)
    noisy.others = [0.05, 0.4]
    assert noisy.noisy() == 1


def test_the_page_compares_every_build_with_the_best_peer(tmp_path: Path) -> None:
    results = [
        result("sink", 1_000_000),
        result("covey", 100_000),
        result("covey compiled", 200_000),
        result("rabbitmq", 25_000),
        result("activemq", 50_000),
    ]
    page = tmp_path / "benchmarks.md"
    report.write(page, results, arguments="queue", processor="a processor")
    text = page.read_text()
    assert "| queue, 128 B | covey | activemq | 2.00 (2.00 to 2.00) |  |" in text
    assert "| queue, 128 B | covey compiled | activemq | 4.00 (4.00 to 4.00) | 5: missed |" in text
    assert "| sink | " in text
    assert (tmp_path / "benchmarks.svg").read_text().count("<rect") == 6


def test_the_page_says_what_failed(tmp_path: Path) -> None:
    lost = Result("queue, 128 B", "covey", "deliveries/s", failure="group 0: 1 messages arrived")
    page = tmp_path / "benchmarks.md"
    report.write(page, [lost], arguments="queue", processor="a processor")
    assert "failed: group 0" in page.read_text()


def test_what_a_person_wrote_on_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    for text in ("first", "second"):
        report.write(page, [result("covey", 1)], arguments=text, processor="a processor")
        if text == "first":
            remarks = "## What it says\n\nThe peer was\nasleep.\n"
            page.write_text(page.read_text().replace("## Workloads", remarks + "\n## Workloads"))
    text = page.read_text()
    assert "`scripts/bench second`" in text and "scripts/bench first" not in text
    assert text.count("The peer was\nasleep.\n\n## Workloads") == 1


@pytest.mark.parametrize(
    ("case", "contender", "ratio", "text"),
    [
        ("queue, 128 B", "covey", 9.0, ""),
        ("queue, 128 B", "covey compiled", 5.1, "5: reached"),
        ("queue, 128 B", "covey compiled", 4.9, "5: missed"),
        ("queue, 1024 B", "covey", 1.0, ""),
        ("durable, 1024 B", "covey compiled", 3.0, "3: reached"),
        ("durable-beside, 1024 B", "covey", 0.0, "5,000/s: missed"),
        ("latency, 128 B", "covey compiled", 2.1, "2: reached"),
    ],
)
def test_a_goal_depends_on_the_build(case: str, contender: str, ratio: float, text: str) -> None:
    assert verdict(Result(case, contender, "deliveries/s", [4_999.0]), ratio) == text


def test_every_goal_is_of_a_case_that_is_measured() -> None:
    names = [case.name for case in cases([flow.name for flow in flows()])]
    for goal in GOALS:
        assert any(name.startswith(goal.case) for name in names) or (
            goal.case.partition(",")[0] in OTHERS
        )


def test_a_build_may_run_with_settings_of_its_own() -> None:
    made = named_build("quick=/some/where,COVEY_BROKER__BUSY_POLL_US=50,OTHER=a=b")
    assert (made.name, made.package) == ("covey quick", "/some/where")
    assert made.settings == {"COVEY_BROKER__BUSY_POLL_US": "50", "OTHER": "a=b"}
    assert named_build("compiled=/some/where").settings == {}


SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A checkout in which nothing was ever run, and nothing could be installed."""
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SCRIPTS, tmp_path / "scripts", ignore=left_out)
    package = Path("src") / "covey"
    shutil.copytree(
        SCRIPTS.parent / package / "bench", tmp_path / package / "bench", ignore=left_out
    )
    shutil.copy(SCRIPTS.parent / package / "__init__.py", tmp_path / package)
    return tmp_path


def said(checkout: Path, *command: str) -> str:
    bare = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [checkout / "scripts" / command[0], *command[1:]],
        env=bare,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert {path.name for path in checkout.iterdir()} == {"scripts", "src"}  # nothing was set up
    return done.stdout


@pytest.mark.parametrize("words", ["--help", "queue --peers coilmq -h"])
def test_bench_names_its_workloads_and_options(fresh: Path, words: str) -> None:
    text = " ".join(said(fresh, "bench", *words.split()).split())
    assert ", ".join(NAMES) in text
    options = [name for action in parser()._actions for name in action.option_strings]
    assert [name for name in options if name not in text] == []


@pytest.mark.parametrize("words", ["", "-h", "--help"])
def test_pipeline_names_its_jobs(fresh: Path, words: str) -> None:
    text = said(fresh, "pipeline", *words.split())
    assert [name for name in JOBS if f"\n  {name} " not in text] == []
