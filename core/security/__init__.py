"""Security: who somebody is, and what they may do.

Read `users` first: every yes or no to a verb comes from there. `permissions` are the configured
rules. `passwords` are the kept records. `throttle` counts failed logins. Imports `events` and
`naming`.
"""
