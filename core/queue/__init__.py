"""Queue: one queue with everything that belongs to it alone.

Read `queue` first. `policy` puts settings to work, `discipline` is what a queue does besides
keeping order (last values, duplicates), `quota` what happens when the queue is full, `timers` what
becomes due by time, `expiry` which messages may have expired, `redelivery` how a message comes back
or dies, `counters` what is counted, `storage_state` what the store and the pager know about the
queue. `owner` is what a queue asks of the broker. Imports `dispatch` and what is below it.
"""
