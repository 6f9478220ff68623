"""The core: one broker as a pure synchronous machine. No sockets, no clock, no logger.

What everybody knows stands here: `errors`, `clock`, `session`, `file_modes`. The rooms, from the
bottom up, which is also the order to read them in:

    naming/      texts of destinations and patterns, and which policy a name gets
    selector/    SQL conditions on messages
    events/      what happened, as records for whoever listens
    jobs/        long work, done in portions beside everything else
    security/    users, passwords, permissions, the throttle on failed logins
    model/       the three nouns that every protocol meets: message, entry, consumer
    dispatch/    one queue's dispatch: lanes, the gate, who gets what next
    queue/       one queue: numbers, policy, quota, timers, redelivery
    storage/     what waits for the disk, bodies that leave memory, the stores
    host/        a virtual host: its queues, topics and subscriptions, and who may use them
    publishing/  the way in: all of a send's destinations or none; transactions
    broker/      the front door that protocols come through, and what happens at the end of a turn
    management/  what operators see and do

A room imports from rooms above it in this list only (pyproject.toml has the contract), and from
`covey.groups` and `covey.config` below the core.
"""
