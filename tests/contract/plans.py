"""What SQLite does for statements, for the tests of plans: a database that explains and counts, and what is in it."""

import re

from scenario import FINALIZER, LIMITS, POLICY, Owner, counts, new_batch, requests_for, stage

from fibatchd.store import accounts, admission, leases
from fibatchd.store.interface import Many, Query
from fibatchd.store.sqlite_connection import connect, run_script

NOW = 1_795_000_000.0
EVERY_DAEMON = {"daemons", "places"}  # as many rows as there are daemons: to read them all is the purpose
SMALL_INDEXES = {
    "batches_unfinished",
    "batches_expiry",
    "lanes_work",
    "accounts_deleted",
}  # what is open; deleted accounts
VIRTUAL = {"due", "sized", "summed", "json_each", "kinds"}


class Database:
    """One connection of its own on a store's file: runs scripts, keeps their statements, counts steps."""

    def __init__(self, path):
        self.connection = connect(path)
        self.statements = []
        self.now = NOW

    def run(self, script, *args, **how):
        """Run a script in a transaction of its own."""
        with self.connection:
            return run_script(self.connection, self.noted(script(*args, **how)), self.now, [])

    def noted(self, script):
        rows = None
        while True:
            try:
                step = script.send(rows)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Query | Many):
                self.statements.append(step)
            rows = yield step

    def plans(self):
        """Explain every statement that ran since the last call: its SQL and the steps of its plan."""
        seen, self.statements = {s.sql: s for s in self.statements}, []
        for step in seen.values():
            params = step.params if isinstance(step, Query) else step.rows[0]
            script = iter_once(Query(f"EXPLAIN QUERY PLAN {step.sql}", params))
            yield step.sql, [row[3] for row in run_script(self.connection, script, self.now, [])]

    def steps(self, script, *args, **how):
        """Return how many steps of SQLite's virtual machine a script takes."""
        count = 0

        def tick():
            nonlocal count
            count += 1
            return False

        self.connection.set_progress_handler(tick, 1)
        try:
            self.run(script, *args, **how)
        finally:
            self.connection.set_progress_handler(None)
        return count


def iter_once(step):
    return (yield step)


def settle(database, size, batch_count=1):
    """Fill a store: an account with so many batches of so many requests each, a daemon, a little in flight."""
    account = database.run(accounts.create_account, "ada", "internal")
    key, secret = database.run(accounts.create_key, account.id)
    owner, made = Owner(account, key), []
    for _ in range(batch_count):
        new, requests = new_batch(owner, finalizer=FINALIZER), requests_for(["m"] * size)
        reserved = database.run(stage, new, "staging", requests)
        for offset in range(0, size, 10_000):
            database.run(admission.append, reserved, offset, requests[offset : offset + 10_000])
        made.append(database.run(admission.publish, new, reserved, *counts(requests), LIMITS, POLICY, None))
    return owner, secret, made, database.run(leases.register, "one")


def scans(plan):
    """Return what of a plan reads a table, or an index that is not small, from end to end."""
    found = []
    for line in plan:
        match = re.match(r"SCAN (\w+)(.*USING (?:COVERING )?INDEX (\w+))?", line)
        if match and match[1] not in VIRTUAL | EVERY_DAEMON and match[3] not in SMALL_INDEXES:
            found.append(line)
    return found
