"""The values the program speaks of: accounts, keys, batches, requests, attempts. Frozen, without I/O."""
