"""Commands for the upkeep of a whole broker: its data, its definitions, its speed."""
