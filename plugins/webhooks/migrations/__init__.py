"""The SQL of the webhooks' tables, a file for each dialect."""
