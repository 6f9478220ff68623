"""Jobs: long work, done in portions beside everything else.

Read `job` first: what a job is, and who does the portions. `turn_length` measures how long the
event loop was busy at a time. Imports `events` and the files of `core` itself. Every room above may
make jobs of its long work.
"""
