"""Options and argument types that several commands share."""

from collections.abc import Sequence
from pathlib import Path

import click

from fibatchd.money import parse_usd

_CONFIG = "fibatchd.config"
LONGEST_SPAN_S = 1e10


def _given_before() -> Path | None:
    """Return the `--config` that stood before the command."""
    found: Path | None = click.get_current_context().meta.get(_CONFIG)
    return found


config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=_given_before,
    is_eager=True,  # read before --help, which lists the commands of the plugins that the file names
    help="The configuration file. Without one, everything has its default.",
)
"""`--config F`, given to the command as `config_path`; the one before the command counts where the command has none."""


def keep_config(ctx: click.Context, path: Path | None) -> None:
    """Note the `--config` that stands before the command."""
    ctx.meta[_CONFIG] = path


def given_before(ctx: click.Context) -> Path | None:
    """Return the `--config` that stood before the command, also while the options there are still being read."""
    found: Path | None = ctx.meta.get(_CONFIG) or ctx.params.get("config_path")
    return found


def take_config(args: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Return the `--config` among arguments that no command has read yet, and the other arguments."""
    rest = list(args)
    for index, arg in enumerate(args):
        if arg == "--":
            break
        if arg == "--config" and index + 1 < len(args):
            del rest[index : index + 2]
            return Path(args[index + 1]), rest
        if arg.startswith("--config="):
            del rest[index]
            return Path(arg.partition("=")[2]), rest
    return None, rest


def text(value: str) -> str:
    """Check a name or an id: printable text, not empty."""
    from fibatchd.administration import text_problem  # brings the configuration, which the help does not need

    if (problem := text_problem(value)) is not None:
        raise click.BadParameter(problem)
    return value


def seconds(value: str) -> float:
    """Read a time span: above 0 s, and below some 300 years."""
    try:
        span = float(value)
    except ValueError:
        span = 0
    if not 0 < span < LONGEST_SPAN_S:
        raise click.BadParameter(f"{value!r} is not a number of seconds above 0")
    return span


def quota(value: str) -> int | None:
    """Read a daily quota: USD as a plain decimal, returned in pico-USD, or `none`, which is None."""
    if value == "none":
        return None
    try:
        return parse_usd(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or none") from None


def base_url(value: str) -> str:
    """Check a server's URL. One without a path gets `/v1`, where OpenAI-compatible servers have their API."""
    if value == "echo:":
        return value
    from fibatchd.upstream.origin import Origin  # brings sockets and TLS, which few commands use

    value = value.rstrip("/")
    try:
        origin = Origin.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value if origin.base else f"{value}/v1"
