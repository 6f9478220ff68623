"""Login: SASL before an AMQP connection.

`sasl` is the exchange of frames, `mechanisms` has the ways to log in. `opening` reads a peer until
its virtual host is known. `sole_connection` is for a container that wants no second connection.
"""
