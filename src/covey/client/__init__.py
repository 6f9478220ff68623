"""Small blocking clients, for the command line and the pipeline."""
