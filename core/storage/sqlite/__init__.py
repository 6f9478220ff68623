"""SQLite: the embedded store, one database file in the data directory.

Read `store` first (the loop's side), then `changes` (what is gathered for a commit), `writer`
(the thread that commits) and `journal` (what the last commits wrote, before it is folded into
the tables). `reader` gives a restart its records, `schema` has the tables, `database` the file
and its lock, `salvage` what can be done for a damaged one. Imports `storage.store` and `errors`.
"""
