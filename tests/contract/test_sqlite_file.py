"""The file of a SQLite store is its user's alone, and so is what SQLite puts beside it."""

import stat

from fibatchd.store import migrate
from fibatchd.store.interface import Query
from fibatchd.store.sqlite import open_sqlite


def note():
    yield Query("INSERT INTO drained_models (model, since) VALUES ('m', 1.5)")


async def test_nobody_else_reads_it(tmp_path):
    file = tmp_path / "data" / "private.db"
    store = await open_sqlite(file, migrations=migrate.core(), exclusive=True)
    await store.write(note)
    assert {path.name for path in file.parent.iterdir()} >= {"private.db", "private.db-wal", "private.db-shm"}
    for path in (file.parent, *file.parent.iterdir()):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
    await store.aclose()


async def test_the_permissions_of_a_file_that_is_there_stay(tmp_path):
    file = tmp_path / "shared.db"
    file.touch(0o640)
    file.chmod(0o640)
    await (await open_sqlite(file, migrations=migrate.core(), exclusive=True)).aclose()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
