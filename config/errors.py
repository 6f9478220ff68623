"""What is wrong with a configuration, all of it at once.

    ConfigError          the configuration cannot be used; carries every Problem that was found

`config` lies below `core`, so this tree has its own root. A Problem names the place where the
value was written, so that an operator can go there. A Problem never repeats a password.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it was written, under which key, what is wrong, the nearest right name."""

    file: str
    """A file's path, `env NAME`, `argument` or `default`."""
    line: int
    """From 1; 0 where the place has no lines."""
    key: str
    text: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f"{self.key}: " if self.key else ""
        hint = f"; did you mean {self.hint}?" if self.hint else ""
        return f"{place}: {key}{self.text}{hint}"


class ConfigError(Exception):
    """The configuration is refused; `problems` holds every reason, by file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; the text of the error is one line for each."""
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)
