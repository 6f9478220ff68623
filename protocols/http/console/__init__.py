"""Console: the web page at `/`, and what only it needs of the server.

Read `README.md` for the page itself, which is in `static`. `assets` serves those files. `sessions`
knows which browsers are signed in. `events` sends server-sent events, and `live` makes their
content.
"""
