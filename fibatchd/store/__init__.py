"""Where everything durable lives: one contract (`interface.py`), two drivers, and the transactions written once for both.

A transaction is a *script*: a generator function that yields statements and receives their rows. It holds all decisions
and no I/O; a driver runs it, in a thread on SQLite, over asyncpg on PostgreSQL. So the modules beside this one
(`accounts`, `batches`, `claims`, `record`, …) are the store's vocabulary, and a plugin adds its own the same way.
"""
