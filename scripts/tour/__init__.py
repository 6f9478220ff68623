"""Tools that draw the tour of the source: `walk` follows a message, `rooms` draws the imports."""
