"""What the pages must say of every strategy in the registry."""

from __future__ import annotations

import re
from pathlib import Path

from covey.groups import OPTIONS, STRATEGIES
from covey.groups.strategy import Option

ROOT = Path(__file__).resolve().parents[2]
GROUPS = ROOT / "docs/groups.md"
DECLARING = ROOT / "docs/declaring.md"
PIPELINE = ROOT / "docs/pipeline.md"
README = ROOT / "README.md"


def names_table() -> str:
    """Write the table of names and options as docs/groups.md has it."""
    lines = ["| strategy | other names | options, with default and limits |", "|---|---|---|"]
    for entry in STRATEGIES.values():
        others = [f"`{alias}`" for alias in entry.aliases]
        others += [
            f"`{name}` ({', '.join(f'{option} {value}' for option, value in values.items())})"
            for name, values in entry.profiles.items()
        ]
        options = ", ".join(map(option_text, entry.options))
        lines.append(f"| `{entry.name}` | {', '.join(others) or '-'} | {options or '-'} |")
    return "\n".join(lines) + "\n"


def option_text(option: Option) -> str:
    if option.is_yes_or_no:
        return f"`{option.name}` {'true' if option.default else 'false'}"
    return f"`{option.name}` {option.default:,} ({option.least:,} to {option.most:,})"


def lacking() -> list[str]:
    """Say which page lacks which strategy or option."""
    groups, declaring = GROUPS.read_text(), DECLARING.read_text()
    found = [] if names_table() in groups else ["docs/groups.md: the table of names"]
    found += [
        f"docs/groups.md: a column of {name}"
        for name in STRATEGIES
        if not re.search(rf"^\| \|.* `{name}` \|", groups, re.MULTILINE)
    ]
    found += [
        f"docs/groups.md: a section on {name}"
        for name in STRATEGIES
        if f"\n### `{name}`" not in groups
    ]
    if f"| `covey.groups.strategy` | {', '.join(STRATEGIES)} |" not in declaring:
        found.append("docs/declaring.md: the strategies")
    found += [
        f"docs/declaring.md: {option.flag}"
        for option in OPTIONS.values()
        if option.flag and f"| `{option.flag} N` | `covey.groups.{option.name}` |" not in declaring
    ]
    planned = next(line for line in PIPELINE.read_text().splitlines() if "`--policies`" in line)
    found += [f"docs/pipeline.md: {name}" for name in STRATEGIES if f"`{name}" not in planned]
    choice = next(line for line in README.read_text().splitlines() if line.startswith("strategy ="))
    found += [f"README.md: {name}" for name in STRATEGIES if name not in choice]
    return found
