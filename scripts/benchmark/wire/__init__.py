"""What the generator speaks: the bytes of each protocol, and one connection of the load.

`link` is a connection, whatever it speaks. `stomp` speaks STOMP with the bytes of `stomp_wire`,
`amqp` speaks AMQP 1.0 with those of `amqp_wire`. `sink` is a broker that does nothing.
"""
