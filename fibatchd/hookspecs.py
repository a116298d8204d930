"""The hooks a plugin may implement: plain functions that return objects. What is asynchronous lives in those objects.

`context` is a `fibatchd.context.Context`. All hooks are called once, at start, in the order of this file, unless one
says when it is called; a plugin is loaded whether its switch in `[extensions]` is on or off, for what it serves must go on
when only creating is switched off.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

from fibatchd.inference.endpoint import Endpoint
from fibatchd.store.ending import BatchHook
from fibatchd.store.migrate import Migration

if TYPE_CHECKING:
    import click
    from quart import Blueprint

    from fibatchd.context import BatchInput, Context, ErrorShape, Identify, Rerun, Service

hookspec = pluggy.HookspecMarker("fibatchd")
hookimpl = pluggy.HookimplMarker("fibatchd")


@hookspec
def fibatchd_settings() -> Mapping[str, Mapping[str, Any]]:
    """Return the JSON Schema (draft 2020-12) of each configuration table that is the plugin's, by the table's name.

    What the file says is then in `context.config.plugin_tables[name]`.
    """
    raise NotImplementedError


@hookspec
def fibatchd_migrations() -> Iterable[Migration]:
    """Return the plugin's numbered migrations, with its own name as their owner."""
    raise NotImplementedError


@hookspec
def fibatchd_commands() -> "Iterable[click.Command]":
    """Return commands for the command line."""
    raise NotImplementedError


@hookspec
def fibatchd_endpoints(context: "Context") -> Iterable[Endpoint]:
    """Return the endpoints that batches may target, and interactive routes run."""
    raise NotImplementedError


@hookspec
def fibatchd_batch_inputs(context: "Context") -> "Iterable[BatchInput]":
    """Return further forms in which `POST /v1/batches` may name its requests."""
    raise NotImplementedError


@hookspec
def fibatchd_reruns(context: "Context") -> "Iterable[Rerun]":
    """Return how batches of the plugin's kinds are run again."""
    raise NotImplementedError


@hookspec
def fibatchd_event_names() -> Mapping[str, str]:
    """Return what the end of a batch is called in events, by the API whose batch it is (`Batch.api`); `{status}` in a name
    stands for the final status."""
    raise NotImplementedError


@hookspec
def fibatchd_batch_ended(context: "Context") -> "BatchHook":
    """Return a function of a batch whose script runs in the transaction that ends it: an event for an outbox."""
    raise NotImplementedError


@hookspec
def fibatchd_batch_deleted(context: "Context") -> "BatchHook":
    """Return a function of a batch whose script runs in the transaction that deletes it: what belongs to it goes too."""
    raise NotImplementedError


@hookspec
def fibatchd_error_shapes() -> "Mapping[str, ErrorShape]":
    """Return how errors are answered under path prefixes of the plugin's: its own API's form, also for 404 and 500."""
    raise NotImplementedError


@hookspec
def fibatchd_routes(context: "Context") -> "Iterable[Blueprint]":
    """Return Quart blueprints. Their views are called with an authenticated caller unless marked `public`."""
    raise NotImplementedError


@hookspec
def fibatchd_identify(context: "Context") -> "Identify":
    """Return an async function that is asked whose call it is where a request carries no key: it returns the id of the key
    that stands behind the request, such as that of a session's, or None; ApiError refuses the request.

    The key and its account are then checked like those of a key that was sent.
    """
    raise NotImplementedError


@hookspec
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return an OpenAPI 3.1 fragment: the plugin's `paths`, `components`, `tags` and `webhooks`. It is joined to the core's,
    objects member by member and arrays end to end, so that it may add to what others say and change none of it.

    Called when the document is first asked for, in a worker thread.
    """
    raise NotImplementedError


@hookspec
def fibatchd_services(context: "Context") -> "Iterable[Service]":
    """Return long-running tasks; each is supervised, and stopped after the last batch request."""
    raise NotImplementedError
