"""The dashboard and the alert rules: they can be loaded, and name metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.protocols.http.support import World

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
NAME = re.compile(r"\b(?:covey|process)_[a-z_]+")
TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)


def known() -> set[str]:
    """Every series that a broker tells."""
    world = World()
    paths = ("/metrics", "/metrics/queues", "/metrics/groups")
    text = "".join(world.ask("GET", path).text for path in paths)
    names = set()
    for name, kind in TYPE.findall(text):
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + end for end in ends}
    return names


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (rule["expr"] for rule in rules())


def test_every_metric_that_is_asked_for_exists() -> None:
    names = known()
    asked = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(asked) > 15
    assert asked - names == set()


def test_every_expression_is_balanced_and_every_rule_says_what_to_do() -> None:
    for expression in expressions():
        assert expression.count("(") == expression.count(")"), expression
        assert expression.count("{") == expression.count("}"), expression
    for rule in rules():
        assert {"alert", "expr", "labels", "annotations"} <= set(rule)
        assert set(rule["annotations"]) == {"summary", "action"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24  # Grafana's columns


def test_prometheus_reads_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: Debian's package prometheus has it")
    done = subprocess.run(
        [promtool, "check", "rules", str(FOLDER / "alerts.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
