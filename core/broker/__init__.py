"""Broker: the front door of the core, and the end of every turn.

`broker` is what a protocol may ask for, in one virtual host. `turns` is what happens at the end of
a batch of events. `rounds` is what is checked every few seconds. `recovery` is what a restart does.
`trace` is what somebody watches of a queue. `shared` is what the brokers of one process have in
common. `directory` says which of them serves a virtual host. Imports every room of the core but
`management`.
"""
