"""What the generator speaks: the bytes of each protocol, and one connection of the load.

`link` is a connection in any protocol. `stomp` speaks STOMP with the bytes of `stomp_wire`,
`amqp` speaks AMQP 1.0 with those of `amqp_wire`.
"""
