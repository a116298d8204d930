"""The core's schema, one file for each step and dialect."""
