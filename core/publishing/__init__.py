"""Publishing: the way of a message into its queues and topics, all of them or none.

Read `publishing` first: its table says which call is for what. Room is asked for everywhere, then
everything is put, or the work waits. `arrivals` is what happens to a message on its way into one
queue. `transactions` gather sends and settlements that happen together, `commit` carries out long
ones, `fences` know those that are committed again. `transfer` takes messages out of a queue by
command. Imports `host` and what is below it.
"""
