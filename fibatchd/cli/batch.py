"""`fibatchd batch`: batches of a running server, over HTTP. Works from any machine that has a key."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fibatchd.cli.options import base_url, text
from fibatchd.cli.tables import show, show_value
from fibatchd.errors import FibatchdError
from fibatchd.printable import is_visible, printable

DEFAULT_URL = "http://127.0.0.1:8787/v1"
PAGE = 100
_COLUMNS = ("id", "status", "endpoint", "total", "completed", "failed", "cost_usd", "created_at")


class Server:
    """The server as one key sees it."""

    def __init__(self, url: str, api_key: str) -> None:
        import httpx2  # slow to import; the help does not need it

        self._failures = (httpx2.HTTPError, httpx2.InvalidURL)
        self._client = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=httpx2.Timeout(60, connect=10)
        )

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a JSON body, if one is given, and return the answer's JSON. Raises FibatchdError where there is none, or it
        is an error."""
        with self._sent(method, path, query, body) as answer:
            answer.read()
            return answer.json()

    def stream(self, path: str) -> Iterator[bytes]:
        """Give the answer's body piece by piece. Raises FibatchdError as `call` does."""
        with self._sent("GET", path, {}, None) as answer:
            yield from answer.iter_bytes()

    @contextmanager
    def _sent(self, method: str, path: str, query: Mapping[str, Any], body: Any) -> Iterator[Any]:
        try:
            with self._client.stream(method, path, params=query, json=body) as answer:
                if not answer.is_success:
                    answer.read()
                    raise FibatchdError(_refusal(answer))
                yield answer
        except (*self._failures, ValueError) as error:
            raise FibatchdError(f"{self._client.base_url}: {error}") from None


def _refusal(answer: Any) -> str:
    """Return what a server says is wrong, in the API's own form or as a status alone."""
    try:
        said = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = answer.reason_phrase
    return f"{answer.status_code}: {said}"


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--base-url` and `--api-key`, and pass it the server as its first argument."""

    @click.option(
        "--base-url",
        "url",
        type=base_url,
        metavar="URL",
        envvar="FIBATCHD_BASE_URL",
        show_envvar=True,
        default=DEFAULT_URL,
        show_default=True,
        help="The server.",
    )
    @click.option(
        "--api-key",
        envvar="FIBATCHD_API_KEY",
        show_envvar=True,
        required=True,
        help="Better in the environment: other users see arguments.",
    )
    @wraps(command)
    def with_server(*args: Any, url: str, api_key: str, **kwargs: Any) -> None:
        api_key = api_key.strip()
        if not is_visible(api_key):
            raise click.BadParameter("not a key", param_hint="--api-key")
        command(Server(url, api_key), *args, **kwargs)

    return with_server


@click.group()
def command() -> None:
    """List, show, cancel, delete and download batches.

    Speaks to a server over HTTP, with an API key. Creating a batch is a call to POST /v1/batches.
    """


@command.command("list")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@server_options
def list_batches(server: Server, limit: int, as_json: bool) -> None:
    """List batches, newest first."""
    found = list(_newest(server, limit))
    show(found if as_json else [_row(batch) for batch in found], as_json=as_json, empty="no batches")


@command.command("show")
@click.argument("batch_id", type=text)
@server_options
def show_batch(server: Server, batch_id: str) -> None:
    """Print a batch as JSON."""
    show_value(server.call("GET", _path(batch_id)))


@command.command()
@click.argument("batch_id", type=text)
@server_options
def cancel(server: Server, batch_id: str) -> None:
    """Cancel a batch and print its status."""
    click.echo(printable(str(server.call("POST", _path(batch_id, "/cancel"))["status"])))


@command.command()
@click.argument("batch_id", type=text)
@server_options
def delete(server: Server, batch_id: str) -> None:
    """Delete a batch with its results."""
    server.call("DELETE", _path(batch_id))


@command.command()
@click.argument("batch_id", type=text)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; stdout without it.")
@server_options
def download(server: Server, batch_id: str, output: Path | None) -> None:
    """Download the results of a finished batch as JSON lines."""
    pieces = server.stream(_path(batch_id, "/output.jsonl"))
    if output is None:
        stdout = sys.stdout.buffer
        for piece in pieces:
            stdout.write(piece)
        return
    partial = output.with_name(output.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.writelines(pieces)
        os.replace(partial, output)  # whoever looks finds all of it or nothing
    except OSError as error:
        raise FibatchdError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


def _path(batch_id: str, rest: str = "") -> str:
    from urllib.parse import quote

    return f"/batches/{quote(batch_id, safe='')}{rest}"


def _newest(server: Server, limit: int) -> Iterator[Any]:
    """Give the newest batches, a page at a time."""
    after: dict[str, str] = {}
    while limit > 0:
        page = server.call("GET", "/batches", limit=min(limit, PAGE), **after)
        yield from page["data"]
        if not page["has_more"]:
            return
        limit -= len(page["data"])
        after = {"after": page["last_id"]}


def _row(batch: Mapping[str, Any]) -> dict[str, Any]:
    flat = {**batch, **batch["request_counts"]}
    return {name: flat[name] for name in _COLUMNS}
