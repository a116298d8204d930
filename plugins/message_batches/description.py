"""What the plugin says of its routes in the API's description: each stands there twice, once under each
prefix."""

from collections.abc import Mapping
from typing import Any

from fibatchd.plugin_api import read_fragment

from .endpoint import PATH
from .routes import ANTHROPIC


def fragment() -> dict[str, Any]:
    """Return the OpenAPI fragment."""
    described = read_fragment(__package__)
    paths: dict[str, Any] = described["paths"]
    again = {ANTHROPIC + path: _again(item) for path, item in paths.items() if path.startswith(PATH)}
    described["paths"] = paths | again
    return described


def _again(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same operations under names of their own."""
    return {
        key: part | {"operationId": f"{part['operationId']}UnderAnthropic"} if "operationId" in part else part
        for key, part in item.items()
    }
