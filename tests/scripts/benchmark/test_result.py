"""Figures and ratios, and the page they become."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.benchmark import report
from scripts.benchmark.result import Result, figure, percentile, ratio


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
    assert "| queue, 128 B | covey | activemq | 2.00 (2.00 to 2.00) | 2: reached |" in text
    assert "| queue, 128 B | covey compiled | activemq | 4.00 (4.00 to 4.00) | 4: reached |" in text
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
