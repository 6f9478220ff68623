"""Dispatch: of one queue's messages, who gets which next, and in what order.

Read `lane` first (one group's messages, and the gate that keeps a group whole), then `placement`
(where a lane stands and whose it is), `view` (what consumers with one selector may see) and
`dispatch` (the oldest message that a willing consumer may take). `state` has the tables that
they share. `membership` is how consumers come and go, `asking` which lanes this may concern,
`admission` what selectors and exclusive consumers allow, `aside` what nobody may take,
`claims` who wants one group alone, `rules` what the group policy says. `ungrouped` and `level` are
the messages without a group, `browsing` the copies for those who only look, `index` finds an entry
by its number, `backlog` packs the entries of a long queue.

Imports `model`, `events` and the strategy interface of `covey.groups`.
"""
