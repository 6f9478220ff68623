"""Every key is found on its line, whatever TOML puts in between."""

from __future__ import annotations

import tomllib

from covey.config.tree import key_lines

TEXT = '''\
# a comment with [brackets] = and "quotes
top = 1
a.b."c.d" = "x = [not a table]"

[broker]  # trailing [[comment]]
id = """
[queue]
id = "not a key"
"""
list = [
  "one", # ]
  { inner = 1 },
]
'quoted key' = 'C:\\'
after = 1

[[queue]]
id = "first"
[[queue]]
id = "second"
  [queue.groups]
  header = "}"
[[queue.part]]
x = 1
[[queue.part]]
x = 2
[other . spaced]
y = 1979-05-27T07:32:00Z
'''


def test_every_statement_is_found_on_its_line() -> None:
    assert key_lines(TEXT) == {
        ("top",): 2,
        ("a",): 3,
        ("a", "b"): 3,
        ("a", "b", "c.d"): 3,
        ("broker",): 5,
        ("broker", "id"): 6,
        ("broker", "list"): 10,
        ("broker", "quoted key"): 14,
        ("broker", "after"): 15,
        ("queue",): 17,
        ("queue", 0): 17,
        ("queue", 0, "id"): 18,
        ("queue", 1): 19,
        ("queue", 1, "id"): 20,
        ("queue", 1, "groups"): 21,
        ("queue", 1, "groups", "header"): 22,
        ("queue", 1, "part"): 23,
        ("queue", 1, "part", 0): 23,
        ("queue", 1, "part", 0, "x"): 24,
        ("queue", 1, "part", 1): 25,
        ("queue", 1, "part", 1, "x"): 26,
        ("other", "spaced"): 27,
        ("other", "spaced", "y"): 28,
    }


def test_the_paths_are_those_of_tomllib() -> None:
    for path in key_lines(TEXT):
        node = tomllib.loads(TEXT)
        for part in path:
            node = node[part]  # type: ignore[index]  # a path may hold list indexes


def test_windows_line_ends_and_a_missing_last_one_change_nothing() -> None:
    assert key_lines(TEXT.replace("\n", "\r\n")) == key_lines(TEXT)
    assert key_lines(TEXT.rstrip("\n")) == key_lines(TEXT)
    assert key_lines("") == {}
