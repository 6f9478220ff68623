"""The store in PostgreSQL: persistent messages that outlive the machine of the broker.

Read `lease` first: who may write a virtual host, and how an owner whose time is over is kept out.
`schema` has the tables, and the checks of a server before it is trusted. `engine` writes batches,
`store` reads what a restart finds. psycopg is imported here and nowhere else; it is the extra
`covey[cluster]`.
"""
