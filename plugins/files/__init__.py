"""File batches: `/v1/files`, and batches created from an uploaded JSONL file, as OpenAI's Batch API has them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quart import Blueprint

from fibatchd.plugin_api import (
    Batch,
    BatchInput,
    Context,
    JobRunner,
    Migration,
    Rerun,
    Script,
    Service,
    from_package,
    hookimpl,
    read_fragment,
)

from . import routes, scripts
from .creating import FileBatches
from .finalizing import FINALIZE, finalize
from .housekeeping import Housekeeping
from .rerunning import FileReruns
from .validation import VALIDATE, validate

JOBS_AT_ONCE = 4
"""Files that one daemon checks, or writes, side by side: a small one need not wait for a large one."""


@hookimpl
def fibatchd_migrations() -> Iterable[Migration]:
    """Return the tables of files."""
    return from_package("files", f"{__name__}.migrations")


@hookimpl
def fibatchd_batch_inputs(context: Context) -> Iterable[BatchInput]:
    """Return the form with `input_file_id`."""
    return [FileBatches(context)]


@hookimpl
def fibatchd_reruns(context: Context) -> Iterable[Rerun]:
    """Return how a file batch is run again."""
    return [FileReruns(context)]


@hookimpl
def fibatchd_batch_deleted(context: Context) -> Callable[[Batch], Script[None]]:
    """Return what deletes a batch's result files with it."""
    return scripts.batch_deleted


@hookimpl
def fibatchd_routes(context: Context) -> Iterable[Blueprint]:
    """Return `/v1/files`."""
    return [routes.blueprint]


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return the description of its routes."""
    return read_fragment(__name__)


@hookimpl
def fibatchd_services(context: Context) -> Iterable[Service]:
    """Return what checks input files, writes result files, and removes old ones. The last goes first: it begins with what
    an earlier run of the daemon left half-written."""
    return [
        Housekeeping(context),
        JobRunner(context, VALIDATE, validate, at_once=JOBS_AT_ONCE),
        JobRunner(context, FINALIZE, finalize, at_once=JOBS_AT_ONCE),
    ]
