"""The event log as files: written beside the broker, read by the jobs.

`schema` has the columns. `writer` is the broker's child process. `reader` finds and opens files.
`histories` joins the runs of a log. `messages` turns a log into one row for each message. `views`
offers the log and its messages to people who ask in SQL. `compaction` merges small files.
"""
