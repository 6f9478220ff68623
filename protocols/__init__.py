"""Protocols: one folder for each wire protocol, and the shell that does all waiting for them.

Read `engine` first: the interface of a protocol, bytes in and bytes out. `connection` is the one
shell around every engine, `wakes` says when a connection has its turn, `lookout` whether the loop
looks for more before it sleeps. `listener` accepts on a port, `roster` knows the open connections,
`tls` encrypts, `process` asks the system about this process, `sniff` tells by the first bytes that
a peer speaks another protocol. `stomp`, `amqp` and `http` do not know each other. Each has a module
`protocol` with its record, and `registry` lists all records. Imports the core.
"""
