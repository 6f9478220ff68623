"""The server: settings in, a running broker out.

`server` puts everything together. `engines` makes what a port needs for each peer, `log_audit`
writes what an operator must hear, `event_log_task` runs the event log, `systemd` talks to the
service manager.
"""
