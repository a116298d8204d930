"""Which endpoints a new batch may name."""

from fibatchd.context import Context
from fibatchd.inference.endpoint import Problem


def endpoint_problem(context: Context, path: str, param: str) -> Problem | None:
    """Return why a batch may not name this path as its `param` ("url" or "endpoint"), None where it may."""
    served = context.endpoints.open_to_batches(context.config.is_on)
    if path in served:
        return None
    if len(served) == 1:
        message = f"{param}: {served[0]} is the only endpoint batches serve"
    else:
        message = f"{param}: batches serve {', '.join(served[:-1])} and {served[-1]} only"
    return Problem(message, param, "invalid_url" if param == "url" else "invalid_value")
