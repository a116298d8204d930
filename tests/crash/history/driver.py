"""Accounts at work: each creates batches of every kind, reads, cancels, deletes, asks; some lose keys, access, their standing.

`steady` only creates, reads and asks, so that its books can be checked to the last digit. `tidy` also cancels and deletes.
`shaky` does all that while its second key is revoked, its tier loses access to batches and gets it back, and it is
suspended and resumed.
"""

import random
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import trio

from fibatchd.errors import StoreError
from fibatchd.store import accounts as store_accounts
from fibatchd.store import migrate
from fibatchd.store.interface import Store
from fibatchd.store.opening import open_store
from history import work
from history.client import Client
from history.stand import Stand

LARGEST = 60
FINAL = ("completed", "failed", "expired", "cancelled", "ended")
PERSISTENT_S = 60


class Account:
    """One account and its actors. `batches` holds those it knows to be there."""

    def __init__(self, name: str, account: str, stand: Stand, seed: int) -> None:
        self.name = name
        self.id = account
        self.stand = stand
        self.chance = random.Random(f"{seed} {name}")
        self.seed = seed
        self.clients: list[Client] = []
        self.retired: list[Client] = []
        self.batches: list[str] = []
        self._made = 0

    @property
    def main(self) -> Client:
        """The key that stays good."""
        return self.clients[0]

    def next_tag(self) -> str:
        self._made += 1
        return f"t{self.name[1]}{self._made}"

    async def act(self) -> None:
        """Do one thing."""
        match self.chance.choices(("create", "look", "ask", "cancel", "delete"), self._weights())[0]:
            case "create":
                await self._create()
            case "ask":
                name = f"{self.next_tag()}-0"
                await self.main.ask(name, work.direct(name))
            case "delete" if self.main.files and self.chance.random() < 0.3:
                await self.main.delete_file(self.main.files.pop(0))
            case what if self.batches:
                batch = self.chance.choice(self.batches[-8:])
                status = await self.main.look(batch)
                if what == "cancel":
                    await self.main.cancel(batch)
                elif what == "delete" and (status in FINAL or self.chance.random() < 0.3):
                    await self.main.delete(batch)

    def _weights(self) -> tuple[int, ...]:
        return (5, 5, 3, 0, 0) if self.name == "steady" else (5, 4, 2, 1, 2)

    async def _create(self) -> None:
        drawn = work.draw(self.chance, self.next_tag(), LARGEST)
        key = drawn.tag if self.chance.random() < 0.5 else None
        client = self.chance.choice(self.clients)
        batch = await client.create(drawn, key)
        if key and drawn.form != "file" and self.chance.random() < 0.4:  # once more, perhaps long after the first
            await trio.sleep(self.chance.uniform(0, 2))
            batch = await self.chance.choice(self.clients).create(drawn, key) or batch
        if batch and batch not in self.batches:
            self.batches.append(batch)

    async def run(self, until: float) -> None:
        while trio.current_time() < until:
            await self.act()
            await trio.sleep(self.chance.uniform(0, 0.3))


async def trouble(account: Account, until: float) -> None:
    """What befalls an account from outside. Each of these takes a key or access away, and gives back what can be."""
    while trio.current_time() < until:
        await trio.sleep(account.chance.uniform(0.5, 3))
        match account.chance.choice(("revoke", "tier", "suspend")):
            case "revoke":
                await _revoke(account)
            case "tier":
                await _do(account, "no_access", "account", "set-tier", account.id, "free")
                await trio.sleep(account.chance.uniform(0, 2))
                await _insist(account, "access", "account", "set-tier", account.id, "internal")
            case "suspend":
                await _do(account, "suspend", "account", "suspend", account.id)
                await trio.sleep(account.chance.uniform(0, 1))
                await _insist(account, "resume", "account", "resume", account.id)


async def _revoke(account: Account) -> None:
    if len(account.clients) > 1 and await _do(account, "revoke", "key", "revoke", account.clients[1].key):
        account.retired.append(account.clients.pop(1))  # not closed: one of the actors may be about to use it
    if len(account.clients) < 2:
        with suppress(StoreError):
            account.clients.append(await new_client(account.stand, account.id))


async def _do(account: Account, op: str, *words: str) -> bool:
    began = time.monotonic()
    status, _ = await trio.to_thread.run_sync(account.stand.command, *words)
    told = {"account": account.id, "key": words[-1] if op == "revoke" else None}
    answer = 200 if status == 0 else None
    account.stand.history.note("call", at=began, op=op, ended=time.monotonic(), status=answer, **told)
    return status == 0


async def _insist(account: Account, op: str, *words: str) -> None:
    """Do it until it is done, so that no account stays out for ever."""
    end = trio.current_time() + PERSISTENT_S
    while not await _do(account, op, *words):
        assert trio.current_time() < end, words
        await trio.sleep(0.5)


async def new_client(stand: Stand, account: str) -> Client:
    """A client by a new key of an account. Raises StoreError."""
    async with _opened(stand) as store:
        key, secret = await store.write(store_accounts.create_key, account)
    stand.daemon.keys.append(secret)
    return Client(stand.daemon.base, account, key.id, secret, stand.history)


def _opened(stand: Stand) -> AbstractAsyncContextManager[Store]:
    """The daemon's store, as a command beside it opens it, which would take the processor for half a second each time."""
    return open_store(stand.database, stand.folder, migrations=migrate.core(), exclusive=False)


@asynccontextmanager
async def accounts(stand: Stand, seed: int, hook: str) -> AsyncIterator[list[Account]]:
    """The three accounts, their webhooks set."""
    made: list[Account] = []
    for name in ("steady", "tidy", "shaky"):
        async with _opened(stand) as store:
            account = await store.write(store_accounts.create_account, name, "internal")
        made.append(Account(name, account.id, stand, seed))
        made[-1].clients.append(await new_client(stand, account.id))
        answer = await made[-1].main.call("PUT", "/v1/batch_webhook", json={"url": hook})
        assert answer is not None
        assert answer.status_code == 200
    made[-1].clients.append(await new_client(stand, made[-1].id))
    try:
        yield made
    finally:
        for account_ in made:
            for client in (*account_.clients, *account_.retired):
                await client.aclose()


async def drive(found: list[Account], seconds: float) -> None:
    """Let all act for so long."""
    until = trio.current_time() + seconds
    async with trio.open_nursery() as nursery:
        for account in found:
            for _ in range(2):
                nursery.start_soon(partial(account.run, until))
        nursery.start_soon(trouble, found[-1], until)
