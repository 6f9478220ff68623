"""Publishing: the way of a message into its queues and topics, all of them or none.

Read `publishing` first: its table says which call is for what. Every target is asked for room
first. Then all messages are put, or all of the work waits (`waiting_work`). `arrivals` is what
happens to a message on its way into one queue. `transactions` gather sends and settlements that
happen together, `commit` carries out long transactions, `fences` recognise a transaction that is
committed again. `transfer` takes messages out of a queue by command. Imports `host` and what is
below it.
"""
