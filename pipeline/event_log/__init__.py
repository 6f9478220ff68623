"""The event log as files: written beside the broker, read by the jobs.

`schema` has the columns. `writer` is the broker's child process. `reader` finds and opens files.
`partition` cuts a log into pieces for Spark's tasks. `messages` makes one row a message of it.
"""
