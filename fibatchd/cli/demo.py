"""`fibatchd demo`: a server with a built-in model, and a batch going through it, in one command.

The daemon runs in this process, as `fibatchd serve` would, and a thread speaks to it over HTTP as any client does: so
there is no second process that could outlive this one.
"""

import json
import os
import signal
import socket
import threading
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from fibatchd.cli.opening import Opened, run
from fibatchd.cli.options import base_url, text
from fibatchd.cli.progress import progress
from fibatchd.cli.serve import run_daemon
from fibatchd.cli.tables import show
from fibatchd.errors import FibatchdError
from fibatchd.money import parse_usd, usd_text
from fibatchd.store import accounts
from fibatchd.store.opening import is_served

REQUESTS = 40
PORT = 8787
POLL_S = 0.1
FINAL = ("completed", "failed", "expired", "cancelled")
_ECHO = 'url = "echo:"\ndelay_s = 0.25 '
_LISTEN = 'listen = ["127.0.0.1:8787"]'
_DATA_DIR = 'data_dir = "demo-data"'
_DATABASE = "fibatchd.db"  # as storage.url has it by default
_TOPICS = ("the sea", "a lighthouse", "prime numbers", "rain", "a train at night", "bread", "chess", "an old map")
_ASKS = (
    "Say something about {}.",
    "Describe {} in one sentence.",
    "What is worth knowing about {}?",
    "Write a title about {}.",
    "Name one fact about {}.",
)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo-data",
    show_default=True,
    help="Where the demo keeps its database; a second start uses it again, a second demo beside it has one of its own.",
)
@click.option(
    "--base-url",
    "upstream",
    type=base_url,
    metavar="URL",
    help="A model server of yours, in place of the built-in model.",
)
@click.option("--model", type=text, default="echo", show_default=True, help="The model's name on that server.")
@click.option("--exit", "exits", is_flag=True, help="End when the batch has ended.")
@click.pass_context
def command(ctx: click.Context, data_dir: Path, upstream: str | None, model: str, exits: bool) -> None:
    """Start a server with a built-in model and run a batch on it.

    The batch's results and cost are shown; then the server stays up, to be tried by hand, until Ctrl-C.
    """
    config_path = write_config(free_folder(data_dir), free_port(PORT), upstream, model)
    visit = Visit(run(config_path, _create_key, create=True), model, exits)
    status = run_daemon(config_path, on_ready=visit.start)
    visit.end()
    ctx.exit(status or (1 if visit.failed else 0))


def write_config(folder: Path, port: int, upstream: str | None, model: str) -> Path:
    """Write the demo's configuration into its folder and return its path. Raises FibatchdError where it cannot be."""
    text = files("fibatchd_config").joinpath("demo.toml").read_text("utf-8")
    changes = {_LISTEN: f'listen = ["127.0.0.1:{port}"]', _DATA_DIR: f"data_dir = {_toml(str(folder.resolve()))}"}
    if upstream is not None:
        changes |= {_ECHO: f"url = {_toml(upstream)} ", 'id = "echo"': f"id = {_toml(model)}"}
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "demo.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except (OSError, ValueError) as error:  # ValueError: a name that is not UTF-8
        raise FibatchdError(f"{path} cannot be written: {getattr(error, 'strerror', error)}") from None
    return path


def _toml(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string


def free_port(wanted: int) -> int:
    """Return the wanted port, or another one where that is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon does: closed ones may linger
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            number: int = probe.getsockname()[1]
            return number
    raise FibatchdError("no port on 127.0.0.1 is free")


def free_folder(wanted: Path) -> Path:
    """Return the wanted folder, or one beside it where another demo runs in that."""
    wanted = wanted.resolve()
    others = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    return next(folder for folder in chain([wanted], others) if not is_served(folder / _DATABASE))


async def _create_key(opened: Opened) -> str:
    """Return a new key of the demo's account, which is made at the first start."""
    found = await opened.store.read(accounts.list_accounts)
    account = next((a for a in found if a.name == "demo"), None)
    if account is None:
        account = await opened.store.write(accounts.create_account, "demo", "internal")
    made = await opened.store.write(accounts.create_key, account.id)
    assert made is not None  # the account is there
    return made[1]


@dataclass(slots=True)
class Visit:
    """What a first user would do: submit a batch, watch it, read its results."""

    key: str
    model: str
    exits: bool
    failed: bool = False
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, url: str) -> None:
        """Begin, beside the daemon that answers at `url`."""
        self._thread = threading.Thread(target=self._visit, args=(url,), name="demo", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The daemon has ended; wait for the thread, whose calls fail from now on."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(5)

    def _visit(self, url: str) -> None:
        from fibatchd.cli.batch import Server

        try:
            server = Server(f"{url}/v1", self.key)
            batch = self._run(server)
            if batch is not None:
                show_results(server, batch)
                self._invite(url)
        except FibatchdError as error:
            if self._stopping.is_set() or not self._is_ready(url):
                return  # the daemon is being ended, which is no failure
            self.failed = True
            click.echo(f"fibatchd: {error}", err=True)
        if self.exits or self.failed:
            os.kill(os.getpid(), signal.SIGTERM)

    def _run(self, server: Any) -> Any:
        """Submit the batch and watch it to its end; return it, None where the demo is ended before."""
        batch = server.call("POST", "/batches", {"requests": requests(self.model), "metadata": {"from": "demo"}})
        click.echo(f"Submitted {batch['id']} with {REQUESTS} requests for {self.model}.")
        with progress("running", REQUESTS) as tell:
            while batch["status"] not in FINAL:
                if self._stopping.wait(POLL_S):
                    return None
                batch = server.call("GET", f"/batches/{batch['id']}")
                counts = batch["request_counts"]
                tell(counts["completed"] + counts["failed"], batch["status"])
        return batch

    def _is_ready(self, url: str) -> bool:
        from fibatchd.cli.batch import Server

        try:
            Server(url, self.key).call("GET", "/readyz")
        except FibatchdError:
            return False
        return True

    def _invite(self, url: str) -> None:
        if self.exits:
            return
        body = {"model": self.model, "messages": [{"role": "user", "content": "Hello!"}]}
        item = {"custom_id": "hello", "body": body}
        click.echo(f"\nThe server stays up at {url}; Ctrl-C ends it. A key for it:\n\n  {self.key}\n")
        click.echo("Submit a batch of your own:\n")
        click.echo(f"  curl {url}/v1/batches -H 'Authorization: Bearer {self.key}' \\")
        click.echo(f"    -H 'Content-Type: application/json' -d '{json.dumps({'requests': [item]})}'\n")


def requests(model: str) -> list[dict[str, Any]]:
    """Return the demo's requests: every topic asked about in every way."""
    prompts = [ask.format(topic) for ask in _ASKS for topic in _TOPICS]
    assert len(prompts) == REQUESTS
    return [
        {
            "custom_id": f"q-{i}",
            "body": {"model": model, "max_tokens": 40, "messages": [{"role": "user", "content": prompt}]},
        }
        for i, prompt in enumerate(prompts, 1)
    ]


def show_results(server: Any, batch: Any) -> None:
    """Print a batch's results as a table, and what they cost."""
    page = server.call("GET", f"/batches/{batch['id']}/results", limit=REQUESTS)
    rows = [{"request": item["custom_id"], "status": item["status"], "answer": _content(item)} for item in page["data"]]
    show(rows, as_json=False, empty="no results")
    counts, usage = batch["request_counts"], batch["usage"]
    cost = usd_text(parse_usd(f"{batch['cost_usd']:.12f}"))
    click.echo(
        f"\n{batch['status']}: {counts['completed']} completed, {counts['failed']} failed; {usage['input_tokens']} input and"
        f" {usage['output_tokens']} output tokens; cost {cost} USD"
    )


def _content(item: Any) -> str:
    if item["response"] is None:
        return str((item["error"] or {}).get("message", ""))
    return str(item["response"]["body"]["choices"][0]["message"]["content"])
