"""`expires_after` of an upload and `output_expires_after` of a batch: how long files are kept, in seconds after they are
made."""

from typing import Any

from fibatchd.plugin_api import ApiError

LEAST_S = 3600
MOST_S = 2_592_000


def read_expiry(value: Any, param: str) -> int:
    """Return the seconds of `{"anchor": "created_at", "seconds": 3600 to 2592000}`. ApiError 400 for anything else."""
    if not isinstance(value, dict):
        raise ApiError(400, f"{param}: expected an object", code="invalid_type", param=param)
    unknown = next((name for name in value if name not in ("anchor", "seconds")), None)
    if unknown is not None:
        raise ApiError(400, f"{param}: has an unknown field", code="unknown_parameter", param=param)
    if value.get("anchor") != "created_at":
        raise ApiError(400, f"{param}.anchor: must be created_at", code="invalid_value", param=f"{param}.anchor")
    seconds = value.get("seconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not LEAST_S <= seconds <= MOST_S:
        message = f"{param}.seconds: expected a whole number from {LEAST_S} to {MOST_S}"
        raise ApiError(400, message, code="invalid_value", param=f"{param}.seconds")
    return seconds
