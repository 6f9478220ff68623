"""Importers: other brokers' configuration files as ours, with a note for whatever has no place."""
