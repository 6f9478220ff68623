"""The store in PostgreSQL: persistent messages that outlive the machine of the broker.

Read `lease` first: who may write a virtual host, and how a zombie is kept out. `schema` has the
tables and what is looked at before anything is trusted to the server. `engine` writes batches,
`store` reads what a restart finds. psycopg is imported here and nowhere else; it is the extra
`covey[cluster]`.
"""
