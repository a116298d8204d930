"""The headers that calls of the Messages API carry: the version, betas, and what belongs to the provider's own service."""

import re
from typing import Any

from quart import request

from fibatchd.plugin_api import ApiError

from .native import BETA
from .versions import HEADER, VERSIONS

# They choose a workspace or a user profile, of which there are none here: no parameter may get lost silently.
_UNSERVED = ("anthropic-workspace-id", "anthropic-user-profile-id")
_VISIBLE = re.compile(r"[ -~]*", re.ASCII)


def sent_version() -> str:
    """Return the current request's version. ApiError 400 for one that is missing or not spoken here."""
    version = request.headers.get(HEADER, "").strip()
    if not version:
        raise _refused(HEADER, f"the header is required; {' and '.join(VERSIONS)} are accepted")
    if version not in VERSIONS:
        raise _refused(HEADER, f"{' and '.join(VERSIONS)} are accepted")
    return version


def refuse_beta() -> None:
    """ApiError 400 where the current request asks for a beta."""
    if request.headers.get(BETA, "").strip():
        raise _refused(BETA, "betas are not available in a batch")


def refuse_unserved() -> None:
    """ApiError 400 where the current request sends a header whose meaning cannot be kept here."""
    for name in _UNSERVED:
        if name in request.headers:
            raise _refused(name, "is not available here")


def interactive_options() -> dict[str, Any]:
    """Return what an interactive call keeps beside its body. Betas go on to a server that knows them."""
    options = {"version": sent_version()}
    refuse_unserved()
    beta = ",".join(request.headers.getlist(BETA)).strip()
    if not _VISIBLE.fullmatch(beta):
        raise _refused(BETA, "expected visible characters")
    return options | {"beta": beta} if beta else options


def _refused(header: str, why: str) -> ApiError:
    return ApiError(400, f"{header}: {why}", param=header)
