"""What goes wrong -> the answer: one table, and each API's own shape, chosen by the path.

Nothing internal leaves through here: what is not an error of ours is a plain 500, and the log line with its request id
says the rest.
"""

import json
from collections.abc import Iterable, Mapping

import structlog
from quart import Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from fibatchd.context import ErrorShape
from fibatchd.errors import ApiError, InvalidJson, StoreUnavailable
from fibatchd.web.render import error_object

log = structlog.get_logger(__name__)

_TEXTS = {
    404: "There is nothing at this path",
    405: "This path does not take this method",
    413: "The request body is too large",
}


def as_api_error(error: BaseException) -> ApiError | None:
    """Return the refusal that an exception amounts to; None for a fault of this program."""
    match error:
        case ApiError():
            return error
        case InvalidJson():
            return ApiError(400, f"The body is refused: {error}", code="invalid_json")
        case StoreUnavailable():
            return ApiError(
                503, "The storage cannot be used at the moment; try again", code="storage_unavailable", retry_after=1
            )
        case MemoryError():
            return ApiError(503, "The server is short of memory; try again later", retry_after=5)
        case HTTPException(code=int(status)) if status < 500:
            return ApiError(status, _TEXTS.get(status) or "The request is malformed")
    return None


class ErrorAnswers:
    """Writes error answers. Plugins bring shapes for paths of theirs; everything else has OpenAI's."""

    def __init__(self, contributed: Iterable[Mapping[str, ErrorShape]]) -> None:
        shapes = {prefix: shape for part in contributed for prefix, shape in part.items()}
        self._shapes = sorted(shapes.items(), key=lambda item: len(item[0]), reverse=True)

    def body(self, path: str, status: int, message: str, request_id: str) -> bytes:
        """Return the JSON of an error that is answered below the app, as `guards.ErrorBody`."""
        return self._body(path, ApiError(status, message), request_id)

    async def handle(self, error: Exception) -> Response:
        """Answer the current request, which ended in `error`."""
        refusal = as_api_error(error)
        if refusal is None:
            log.error("request failed", method=request.method, path=request.path, exc_info=error)
            refusal = ApiError(
                500, "The server failed to answer; the request id names the failure in its log", code="internal_error"
            )
        elif refusal.status >= 500:
            log.warning("request refused", status=refusal.status, reason=str(error), path=request.path)
        request_id = request.scope["state"]["request_id"]
        answer = Response(
            self._body(request.path, refusal, request_id), refusal.status, content_type="application/json"
        )
        answer.headers.extend(_headers(refusal))
        if isinstance(error, MethodNotAllowed) and error.valid_methods:
            answer.headers["Allow"] = ", ".join(sorted(error.valid_methods))
        return answer

    def _body(self, path: str, error: ApiError, request_id: str) -> bytes:
        shape = next((shape for prefix, shape in self._shapes if _is_under(path, prefix)), None)
        if shape is None:
            shown: Mapping[str, object] = error_object(error.status, error.message, error.param, error.code)
        else:
            shown = shape(error.status, error.message, error.param, error.code, request_id)
        # A message may quote a client's lone surrogates, which only escapes can hold.
        return json.dumps(shown).encode()


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _headers(error: ApiError) -> dict[str, str]:
    headers = dict(error.headers)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    # The SDKs retry every 409 by themselves, though only a person can cure one.
    if error.status == 409 or not error.retry:
        headers["x-should-retry"] = "false"
    return headers
