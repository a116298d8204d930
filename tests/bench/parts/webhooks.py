"""How long an event takes from the commit of its transaction to its receiver, while a tenth of 500 endpoints hang and have a queue.

    python tests/bench/parts/webhooks.py [--endpoints 500] [--hanging 50] [--queue 10] [--rounds 3] [--over 0] [sqlite postgresql]

In each round every working endpoint has an event, all of them at the same moment unless they are spread `--over` some
seconds. At the same moment is the worst case: the last one's time is the time that all take together. Each delivery has its
own connection; the receiver is in a process of its own, on the same machine.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from types import MappingProxyType

import structlog
import trio
from fibatchd_plugins.webhooks import outbox, registry
from fibatchd_plugins.webhooks.sender import Sender
from fibatchd_plugins.webhooks.settings import TABLE

from fibatchd import plugin_loader
from fibatchd.config import Config
from fibatchd.context import Context
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.load import Load
from fibatchd.store import accounts, leases
from fibatchd.store.opening import open_store

sys.path.insert(0, str(Path(__file__).parents[2]))

ANSWER = b"HTTP/1.1 204 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def receive(port, arrivals):
    """Run the receivers: a path that begins with /hang never gets an answer. Puts (event id, time) into `arrivals`."""

    async def serve(stream):
        try:
            received = b""
            while b"}" not in received.partition(b"\r\n\r\n")[2][-3:]:
                if not (data := await stream.receive_some()):
                    return
                received += data
            arrivals.put((json.loads(received.partition(b"\r\n\r\n")[2])["id"], time.time()))
            if received.startswith(b"POST /hang"):
                await trio.sleep_forever()
            await stream.send_all(ANSWER)
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def main():
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
        port.put(listeners[0].socket.getsockname()[1])
        await trio.serve_listeners(serve, listeners)

    trio.run(main)


async def measure(store, options, port, arrivals):
    """Return the seconds that each event of a working endpoint took, over all rounds."""
    settings = Config(plugin_tables=MappingProxyType({TABLE: MappingProxyType({"allow_private_addresses": True})}))
    context = Context(settings, store, Endpoints(), None, Load())
    daemon = await store.write(leases.register, "bench")
    context.daemon = lambda: daemon
    owners = []
    for number in range(options.endpoints):
        account = await store.write(accounts.create_account, str(number), "internal")
        path = f"hang/{number}" if number < options.hanging else str(number)
        await store.write(registry.put, account.id, f"http://127.0.0.1:{port}/{path}", rotate=False)
        owners.append(account.id)
    took = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(renew, store, daemon)
        await nursery.start(Sender(context).run)
        for owner in owners[: options.hanging]:
            for _ in range(options.queue):
                await store.write(outbox.add, owner, "batch.completed", {"id": "batch_0"})
        for _ in range(options.rounds):
            took += await one_round(store, owners[options.hanging :], arrivals, options.over)
        nursery.cancel_scope.cancel()
    return sorted(took)


async def renew(store, daemon):
    while True:
        await trio.sleep(leases.LEASE_S / 5)
        await store.write(leases.renew, daemon, {})


async def one_round(store, owners, arrivals, over):
    written = {}

    async def add(owner, wait):
        await trio.sleep(wait)
        event = await store.write(outbox.add, owner, "batch.completed", {"id": "batch_0"})
        written[event.id] = time.time()

    async with trio.open_nursery() as nursery:
        for number, owner in enumerate(owners):
            nursery.start_soon(add, owner, over * number / len(owners))
    took = []
    while len(took) < len(owners):
        event_id, at = await trio.to_thread.run_sync(arrivals.get)
        if event_id in written:
            took.append(max(0.0, at - written[event_id]))  # it may be there before we hear of our own commit
    return took


async def bench(kind, url, options):
    """Measure one store, and print what was measured."""
    spawn = multiprocessing.get_context("spawn")
    port, arrivals = spawn.Queue(), spawn.Queue()
    receiver = spawn.Process(target=receive, args=(port, arrivals), daemon=True)
    receiver.start()
    with tempfile.TemporaryDirectory() as folder:
        migrations = plugin_loader.load().migrations()
        async with open_store(url, Path(folder), migrations=migrations, exclusive=True) as store:
            cpu = time.process_time()
            took = await measure(store, options, port.get(), arrivals)
            cpu = time.process_time() - cpu
    receiver.kill()
    receiver.join()
    at = {percent: took[min(len(took) - 1, len(took) * percent // 100)] for percent in (50, 90, 99)}
    figures = ", ".join(f"p{percent} {seconds * 1000:.0f} ms" for percent, seconds in at.items())
    print(
        f"{kind:11} {len(took)} deliveries: {figures}, last {took[-1] * 1000:.0f} ms; {cpu / len(took) * 1000:.1f} ms of CPU each"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=500)
    parser.add_argument("--hanging", type=int, default=50)
    parser.add_argument("--queue", type=int, default=10, help="events that wait for each hanging endpoint")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--over", type=float, default=0.0, help="seconds over which a round's events are spread")
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgresql"])
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))  # errors alone
    if "sqlite" in options.stores:
        trio.run(bench, "sqlite", "sqlite:bench.db", options)
    if "postgresql" in options.stores:
        import databases

        with databases.own_server(durable=True) as server, databases.new_database(server.get_uri()) as url:
            trio.run(bench, "postgresql", url, options)


if __name__ == "__main__":
    main()
