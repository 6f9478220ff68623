"""The event log as files: written beside the broker, read by the jobs.

`schema` has the columns. `writer` is the broker's child process. `reader` finds and opens files.
`histories` joins the runs of a log, `messages` makes one row a message of it, `views` shows both to
people who ask in SQL. `compaction` merges small files.
"""
