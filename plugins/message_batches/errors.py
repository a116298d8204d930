"""Errors as the Messages API has them: one shape, and a type for each kind."""

from typing import Any

_BY_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_BY_CODE = {
    "invalid_request": "invalid_request_error",
    "forbidden": "permission_error",
    "model_not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "timeout": "timeout_error",
    "service_unavailable": "overloaded_error",
    "upstream_error": "api_error",
    "result_too_large": "api_error",
    "batch_failed": "authentication_error",
}
TYPES = frozenset([*_BY_STATUS.values(), "api_error"])


def type_of_status(status: int) -> str:
    """Return the type of an error that is answered with an HTTP status."""
    return _BY_STATUS.get(status, "api_error" if status >= 500 else "invalid_request_error")


def type_of_code(code: str) -> str:
    """Return the type of what failed a batched request, by the core's error code."""
    return _BY_CODE.get(code, "api_error")


def error_object(kind: str, message: str, request_id: str | None) -> dict[str, Any]:
    """Return an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def error_shape(status: int, message: str, param: str | None, code: str | None, request_id: str) -> dict[str, Any]:
    """Return the body of an error answer; the API has no member for the field at fault, which the message names."""
    return error_object(type_of_status(status), message, request_id)
