"""Publishing: the way of a message into its queues and topics, all of them or none.

Read `publishing` first: room is asked for everywhere, then everything is put, or the work waits.
`arrivals` is what happens to a message on its way; `transactions` gather sends and settlements
that happen together. Imports `host` and what is below it.
"""
