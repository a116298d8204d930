"""The console: a page at `/console` to look at batches instead of polling them, and its sessions.

page         what the browser gets: HTML, a stylesheet, ES modules; `serving` answers with them
sign_in      `/console/session`: a key is exchanged for a session cookie; `attempts` bounds how often that may be tried
sessions     scripts on sessions; `identity` tells by the cookie whose a call is, and that the page itself makes it
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quart import Blueprint

from fibatchd.plugin_api import Context, Identify, Migration, Service, from_package, hookimpl, read_fragment

from . import serving, sign_in
from .housekeeping import Housekeeping
from .identity import identify
from .settings import SCHEMA, TABLE


@hookimpl
def fibatchd_settings() -> Mapping[str, Mapping[str, Any]]:
    """Return the schema of [console]."""
    return {TABLE: SCHEMA}


@hookimpl
def fibatchd_migrations() -> Iterable[Migration]:
    """Return the table of sessions."""
    return from_package("console", f"{__name__}.migrations")


@hookimpl
def fibatchd_identify() -> Identify:
    """Return what knows sessions by their cookies."""
    return identify


@hookimpl
def fibatchd_routes() -> Iterable[Blueprint]:
    """Return `/console` and what is below it."""
    return [serving.blueprint(), sign_in.blueprint()]


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    """Return the description of its routes."""
    return read_fragment(__name__)


@hookimpl
def fibatchd_services(context: Context) -> Iterable[Service]:
    """Return what removes sessions that are over."""
    return [Housekeeping(context)]
