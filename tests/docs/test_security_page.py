"""The security page's configuration works as written, and its table names every verb."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.config.load import load
from covey.core.security.permissions import compile_permissions
from covey.core.security.users import Verb

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_each_example_is_a_configuration(block: str, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text(block)
    settings = load(file, {}, {}).settings
    compile_permissions(settings.permissions)
    assert settings.permissions or settings.connectors[0].tls


def test_the_table_names_every_verb() -> None:
    rows = re.findall(r"^\| (\w+) \|", PAGE, re.MULTILINE)
    assert [verb.value for verb in Verb] == [row for row in rows if row not in ("verb", "limit")]


def test_every_setting_the_page_names_exists() -> None:
    reference = (Path(__file__).parents[2] / "config" / "default.toml").read_text()
    named = set(re.findall(r"`(?:\w+\.)?([a-z]+_[a-z_]+)(?: = \w+)?`", PAGE))
    logged = {"logged_in", "login_failed", "slow_consumer", "unread_s"}
    logged |= {"reload_refused", "needs_restart", "operator_action", "audit_lines_left_out"}
    logged |= {"connection_opened", "connection_closed"}
    assert [name for name in sorted(named - logged) if f"{name} = " not in reference] == []
