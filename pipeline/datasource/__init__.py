"""Data source `covey` for Spark: queues as tables and streams, both ways.

Read `source` first, then `options`. Reading: `reader`, `offsets`, `filters`, `columns`,
`client`. Writing: `sink`.
"""
