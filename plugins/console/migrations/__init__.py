"""The SQL of the console's table, a file for each dialect."""
