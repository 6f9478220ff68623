"""SQLite: the embedded store, a journal and a database in the data directory.

Read `store` first (what a restart finds), then `engine` (what the store's thread does), `journal`
(commits that are not in the tables yet), `segments` (the journal's files) and `statements` (changes
as SQL). `replay` and `reader` give a restart its records, `schema` has the tables, `database` the
files and their lock, `layout` the directories. `confirmed` and `evidence` know what was promised,
`salvage` rescues what it can of a damaged file, `journal_rows` is the journal of earlier formats.
Imports the other files of `storage`, and `errors`.
"""
