"""What a model takes, beyond what the API documents: the numbers of its `[models.capabilities]`."""

from collections.abc import Mapping, Sequence
from typing import Any

from fibatchd.plugin_api import Capabilities, Problem


def limit_problem(request: Mapping[str, Any], limits: Capabilities) -> Problem | None:
    """Judge a decoded body that the schema has passed. Tokens are counted where the client sends token ids."""
    inputs = _inputs(request["input"])
    if len(inputs) > limits.max_inputs:
        text = f"input: the model takes at most {limits.max_inputs} inputs at once, got {len(inputs)}"
        return Problem(text, "input")
    for index, one in enumerate(inputs):
        if limits.max_input_tokens is not None and not isinstance(one, str) and len(one) > limits.max_input_tokens:
            where = "input" if one is request["input"] else f"input[{index}]"
            text = f"{where}: the model takes at most {limits.max_input_tokens} tokens, got {len(one)}"
            return Problem(text, where)
    return _dimensions_problem(request.get("dimensions"), limits.max_dimensions)


def _inputs(given: str | Sequence[Any]) -> Sequence[str | Sequence[int]]:
    """Return the inputs of any of the four forms, each a text or its tokens."""
    if isinstance(given, str) or isinstance(given[0], int | float):
        return [given]
    return given


def _dimensions_problem(dimensions: int | None, most: int | None) -> Problem | None:
    if dimensions is None or most is None or dimensions <= most:
        return None
    if most == 0:
        return Problem("dimensions: the model's embeddings have one size, which cannot be chosen", "dimensions")
    return Problem(f"dimensions: the model takes at most {most}, got {dimensions}", "dimensions")
