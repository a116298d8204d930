"""`fibatchd run`: a file of requests run against a model server, without a daemon."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import trio

from fibatchd.cli.opening import load_plugins
from fibatchd.cli.options import base_url, given_before, seconds, text
from fibatchd.cli.progress import Show, progress
from fibatchd.config import Batches, Config, Model, Upstream
from fibatchd.errors import FibatchdError
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.oneshot.journal import Journal, discard
from fibatchd.oneshot.output import answers, write_output
from fibatchd.oneshot.reading import LONGEST_LINE, Survey, read, survey
from fibatchd.oneshot.runner import Runner, Tally
from fibatchd.printable import is_visible, printable
from fibatchd.upstream.fleet import Fleet

STOPPED = 128  # plus the signal's number: the exit status by which shells know it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says, beside the files."""

    base_url: str
    model: str | None
    concurrency: int
    api_key_env: str | None
    timeout: float
    max_attempts: int
    wait: float
    overwrite: bool


@click.command()
@click.argument("source", metavar="IN.jsonl", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="OUT.jsonl", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--base-url", required=True, type=base_url, metavar="URL", help="The server: http://HOST:PORT/v1.")
@click.option("--model", type=text, help="The model's name, in place of the one that each request has.")
@click.option("--concurrency", type=click.IntRange(1, 4096), default=16, show_default=True, help="Requests at once.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option(
    "--timeout",
    type=seconds,
    default=600,
    show_default=True,
    help="Seconds for one attempt.",
)
@click.option("--max-attempts", type=click.IntRange(1), default=8, show_default=True, help="Attempts at one request.")
@click.option(
    "--wait",
    type=seconds,
    default=300,
    show_default=True,
    help="Seconds to wait for a server that is gone.",
)
@click.option("--overwrite", is_flag=True, help="Begin anew: forget OUT.jsonl and what was answered before.")
@click.pass_context
def command(ctx: click.Context, /, source: Path, target: Path, **options: object) -> None:
    """Run a file of requests against a model server.

    Both files are JSON lines as OpenAI's batches have them. Answers go to OUT.jsonl in the order of IN.jsonl, once all are
    there; until then they are kept in OUT.jsonl.journal. A run that was stopped goes on where it stopped when it is
    started again. Requests that may yet succeed are tried again, as in a batch.
    """
    if target.exists() and target.samefile(source):
        raise click.UsageError("OUT.jsonl is IN.jsonl")
    settings = Settings(**options)  # type: ignore[arg-type]  # the options above, by their names
    endpoints = _endpoints(given_before(ctx))
    found = survey(source, endpoints.by_path, settings.model)
    if found.problems:
        for problem in found.problems:
            click.echo(printable(problem), err=True)
        ctx.exit(1)
    if _is_done(source, target, settings):
        click.echo(f"{target} has all {found.total} answers already", err=True)
        return
    ctx.exit(_run(source, target, found, endpoints, settings))


def _endpoints(config_path: Path | None) -> Endpoints:
    """Return what may be run: chat completions, and what plugins let batches target."""
    endpoints = Endpoints()
    endpoints.add(ChatCompletions())
    for name, found in load_plugins(config_path).endpoints():
        for endpoint in found:
            if endpoint.batchable:
                endpoints.add(endpoint, name)
    return endpoints


def _is_done(source: Path, target: Path, settings: Settings) -> bool:
    """Whether nothing is left to do. Raises FibatchdError where OUT.jsonl is something else, which is not to be lost."""
    journal = _journal_path(target)
    if settings.overwrite:
        discard(journal)
        return False
    if not target.exists() or journal.exists():
        return False
    if answers(target, (line.custom_id for line in read(source, settings.model))):
        return True
    raise FibatchdError(f"{target} exists, and does not hold the answers to {source}; --overwrite replaces it")


def _journal_path(target: Path) -> Path:
    return target.with_name(target.name + ".journal")


def _run(source: Path, target: Path, found: Survey, endpoints: Endpoints, settings: Settings) -> int:
    """Run what is left, write the output when all is there, and return the exit status."""
    journal = Journal(_journal_path(target), f"{found.digest}:{settings.model or ''}", found.total)
    before, begun = journal.done, time.monotonic()
    if before:
        click.echo(f"going on: {before} of {found.total} were answered before", err=True)
    with progress("running", found.total) as show:
        tally, received = trio.run(_runs, source, found, endpoints, settings, journal, show)
    if journal.done < found.total:
        click.echo(f"stopped at {journal.done} of {found.total}; run it again to go on", err=True)
        journal.close()
        return STOPPED + received
    write_output(target, journal)
    _tell(tally, found.total, before, time.monotonic() - begun)
    return 0


async def _runs(
    source: Path, found: Survey, endpoints: Endpoints, settings: Settings, journal: Journal, show: Show
) -> tuple[Tally, int]:
    """Run until all is answered or a signal comes; return how it went, and the signal's number or 0."""
    config = _config(found, settings, tuple(endpoints.by_path))
    fleet = Fleet()
    await fleet.update(config)
    before, received = journal.done, 0

    def changed(tally: Tally) -> None:
        note = "waiting for the server" if tally.waiting else f"{tally.failed} failed" if tally.failed else ""
        show(before + tally.completed + tally.failed, note)

    async def heed_signals() -> None:
        nonlocal received
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                received = number
                runner.stop()

    runner = Runner(
        Executor(fleet, retry_after_cap_s=config.batches.retry_after_cap_s),
        endpoints,
        {model.id: model for model in config.models},
        config.batches,
        journal,
        patience_s=settings.wait,
        on_change=changed,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heed_signals)
        await runner.run(read(source, settings.model), settings.concurrency)
        nursery.cancel_scope.cancel()
    await fleet.aclose()
    return runner.tally, received


def _config(found: Survey, settings: Settings, paths: tuple[str, ...]) -> Config:
    """Return the configuration that a daemon would have for this: each model, served by the one server."""
    key = _key(settings.api_key_env, os.environ)
    models = [
        Model(
            id=name,
            endpoints=paths,
            upstreams=(
                Upstream(
                    url=settings.base_url,
                    endpoints=paths,
                    model=name,
                    api_key=key,
                    timeout_s=settings.timeout,
                    max_connections=settings.concurrency,
                ),
            ),
        )
        for name in sorted(found.models)
    ]
    batches = Batches(max_attempts=settings.max_attempts, max_result_bytes=LONGEST_LINE)
    return Config(models=tuple(models), batches=batches)


def _key(name: str | None, environ: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    key = environ.get(name, "").strip()
    if not is_visible(key):
        raise FibatchdError(f"--api-key-env: ${name} holds no key")
    return key


def _tell(tally: Tally, total: int, before: int, took: float) -> None:
    told = f"{total} requests" if not before else f"{total - before} of {total} requests"
    click.echo(
        f"{told} in {took:.1f} s: {tally.completed} completed, {tally.failed} failed, {tally.retried} attempts"
        f" tried again; {tally.input_tokens} input and {tally.output_tokens} output tokens",
        err=True,
    )
