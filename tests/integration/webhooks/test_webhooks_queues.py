"""However many events are due, a look for the next ones takes as long: counted in steps of SQLite's virtual machine."""

from fibatchd_plugins.webhooks import outbox, registry
from fibatchd_plugins.webhooks.outbox import Room

from fibatchd import plugin_loader
from fibatchd.store import accounts, leases
from fibatchd.store.interface import Insert
from fibatchd.store.sqlite import open_sqlite
from fibatchd.store.sqlite_connection import connect, run_script

NOW = 1_795_000_000.0
COLUMNS = ("id", "account_id", "type", "created_at", "data", "status", "due_at")


def steps_of_a_look(connection, daemon):
    count = 0

    def tick():
        nonlocal count
        count += 1
        return False

    connection.set_progress_handler(tick, 100)
    try:
        taken = run(connection, outbox.take, daemon, [], Room(total=64, failing=32, each=4))
    finally:
        connection.set_progress_handler(None)
    return count * 100, [delivery.event.id for delivery in taken.deliveries]


def run(connection, script, *args, **options):
    with connection:
        return run_script(connection, script(*args, **options), NOW, [])


def insert(rows):
    yield Insert("webhook_events", COLUMNS, rows)


async def test_a_look_takes_as_long_whatever_waits(tmp_path):
    file = tmp_path / "queues.db"
    await (await open_sqlite(file, migrations=plugin_loader.load().migrations(), exclusive=True)).aclose()
    connection = connect(file)
    owners = [run(connection, accounts.create_account, str(number), "internal").id for number in range(10)]
    for owner in owners:
        run(connection, registry.put, owner, "https://example.com/", rotate=False)
    daemon = run(connection, leases.register, "one")
    found = []
    for size in (20, 4000):  # events of each account
        events = [
            (
                f"evt_{size}-{number:05}-{owner}",
                owner,
                "batch.completed",
                NOW,
                "{}",
                "pending",
                NOW - 10 * size + number,
            )
            for owner in owners
            for number in range(size)
        ]
        run(connection, insert, events)
        steps, taken = steps_of_a_look(connection, daemon)
        assert len(taken) == 40
        found.append(steps)
    connection.close()
    assert found[1] < 2 * found[0]
