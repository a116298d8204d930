"""The rows: one module each, with a `ROW`; see frame/row.py."""
