"""Login: SASL before an AMQP connection.

`sasl` is the exchange, `mechanisms` the ways in. `sole_connection` is for a container that asks to
have no other connection.
"""
