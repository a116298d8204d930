"""The schema of files, one file for each step and dialect."""
