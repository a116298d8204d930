"""`/console`: the page and its files, read once in a process, with the headers that confine it.

The page names its files under a digest of all of them, so that browsers keep them for good and never mix two versions.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from quart import Blueprint, Response, request

from fibatchd.plugin_api import ApiError, front, not_modified, public

from .sign_in import require_on

PACKAGE = f"{__package__}.page"
PAGE = "console.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOR_GOOD = "public, max-age=31536000, immutable"

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page: its bytes, the same compressed, its media type, its entity tag."""

    content: bytes
    compressed: bytes
    content_type: str
    etag: str

    @classmethod
    def of(cls, content: bytes, suffix: str) -> "File":
        """Make one of its bytes and the end of its name."""
        compressed = gzip.compress(content, mtime=0)
        return cls(content, compressed, TYPES[suffix], hashlib.sha256(content).hexdigest()[:32])


class Page:
    """All files of the page, by path; `version` is their digest, `whole` the page itself, which names it."""

    def __init__(self) -> None:
        found = dict(_walk(resources.files(PACKAGE)))
        digest = hashlib.sha256(b"".join(path.encode() + found[path] for path in sorted(found)))
        self.version = digest.hexdigest()[:16]
        self.files = {path: File.of(content, path[path.rindex(".") :]) for path, content in found.items()}
        modules = sorted(path for path in found if path.endswith(".js"))
        preloads = "\n".join(f'<link rel="modulepreload" href="console/{self.version}/{path}">' for path in modules)
        text = found[PAGE].decode().replace("{version}", self.version).replace("{preloads}", preloads)
        self.whole = File.of(text.encode(), ".html")


@cache
def page() -> Page:
    """Return the page, as it was when it was first asked for."""
    return Page()


def blueprint() -> Blueprint:
    """Return the routes."""
    routes = Blueprint("console", __name__)

    @routes.get("/console")
    @public
    async def show_page() -> Response:
        require_on(front().context.config)
        return answer(page().whole, "no-cache")

    @routes.get("/console/<version>/<path:path>")
    @public
    async def show_file(version: str, path: str) -> Response:
        require_on(front().context.config)
        file = page().files.get(path)
        if file is None:
            raise ApiError(404, "There is nothing at this path")
        # A page of another version, open while this one was installed, gets what there is, and keeps nothing.
        return answer(file, FOR_GOOD if version == page().version else "no-store")

    return routes


def answer(file: File, keep: str) -> Response:
    """Answer with a file; `keep` says for how long it may be kept."""
    headers = {**HEADERS, "Cache-Control": keep, "ETag": f'"{file.etag}"', "Vary": "Accept-Encoding"}
    if request.if_none_match.contains_weak(file.etag):
        return not_modified(headers)
    content = file.content
    if request.accept_encodings.quality("gzip") > 0:
        content, headers["Content-Encoding"] = file.compressed, "gzip"
        headers["ETag"] = f'W/"{file.etag}"'
    return Response(content, 200, headers, content_type=file.content_type)


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walk(item, f"{prefix}{item.name}/")
        elif item.name.endswith(tuple(TYPES)):
            yield f"{prefix}{item.name}", item.read_bytes()
