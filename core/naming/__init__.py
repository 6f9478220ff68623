"""Naming: how destinations are written and read, and which settings a name gets.

Read `destination` first, then `path` (its parts), `pattern` (wildcards and regular expressions),
`pattern_index` (which patterns match a name) and `policies` (the first configured entry that
matches a name). Imports nothing of the core but `errors`.
"""
