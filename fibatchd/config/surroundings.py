"""What a configuration needs of the machine: files that can be read, keys that are set.

Checked only for the daemon (and `check-config`). A command that just opens the store may run as another user, without
the daemon's credentials.
"""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fibatchd.config.problems import KeyPath, Problem
from fibatchd.printable import is_visible

Table = Mapping[str, Any]


def check_files(document: Table) -> Iterator[Problem]:
    """Every file and folder that a setting names is there, and certificates are what they should be."""
    server, storage = document.get("server", {}), document.get("storage", {})
    yield from _check_certificate(server)
    if "plugin_dir" in server and not Path(server["plugin_dir"]).is_dir():
        yield Problem(("server", "plugin_dir"), "is not a folder", True)
    if "password_file" in storage:
        yield from _check_readable(storage["password_file"], ("storage", "password_file"))
    for path, upstream in _upstreams(document):
        if "ca_file" in upstream:
            yield from _check_authorities(upstream["ca_file"], (*path, "ca_file"))


def _check_certificate(server: Table) -> Iterator[Problem]:
    names = [name for name in ("tls_cert", "tls_key") if name in server]
    unreadable = [problem for name in names for problem in _check_readable(server[name], ("server", name))]
    yield from unreadable
    if len(names) == 2 and not unreadable:
        try:
            # A password is not asked for: a daemon has nobody to ask.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server["tls_cert"], server["tls_key"], password="")
        except (OSError, ValueError):
            text = "is not a PEM certificate chain, or tls_key is not its key (in PEM, without a password)"
            yield Problem(("server", "tls_cert"), text, True)


def _check_authorities(file: str, path: KeyPath) -> Iterator[Problem]:
    unreadable = list(_check_readable(file, path))
    yield from unreadable
    if not unreadable:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
        except (OSError, ValueError):
            yield Problem(path, "holds no PEM certificates", True)


def read_keys(document: Table, environ: Mapping[str, str]) -> tuple[dict[KeyPath, str], list[Problem]]:
    """The upstreams' API keys, by the upstream's path, and what is wrong with those that cannot be had."""
    keys: dict[KeyPath, str] = {}
    found: list[Problem] = []
    for path, upstream in _upstreams(document):
        try:
            key = _read_key(upstream, environ)
        except (OSError, LookupError, ValueError) as error:
            source = "api_key_env" if "api_key_env" in upstream else "api_key_file"
            found.append(Problem((*path, source), _reason(error), shows_value=True))
        else:
            if key is not None:
                keys[path] = key
    return keys, found


def _read_key(upstream: Table, environ: Mapping[str, str]) -> str | None:
    if (name := upstream.get("api_key_env")) is not None:
        if name not in environ:
            raise LookupError("is not set in the environment")
        key = environ[name].strip()
    elif (file := upstream.get("api_key_file")) is not None:
        key = Path(file).read_text("utf-8", "replace").strip()
    else:
        return None
    if not is_visible(key):
        raise ValueError("does not hold a key, which is visible ASCII characters on one line")
    return key


def _upstreams(document: Table) -> Iterator[tuple[KeyPath, Table]]:
    """All upstreams of all models, each with its path."""
    for i, model in enumerate(document.get("models", ())):
        for j, upstream in enumerate((model or {}).get("upstreams", ())):
            if upstream is not None:
                yield ("models", i, "upstreams", j), upstream


def _check_readable(file: str, path: KeyPath) -> Iterator[Problem]:
    try:
        with open(file, "rb") as opened:
            opened.read(1)
    except (OSError, ValueError) as error:
        yield Problem(path, _reason(error), shows_value=True)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error.args[0])
