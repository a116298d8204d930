"""Translates tools and the choice among them."""

from typing import Any

from fibatchd.plugin_api import rawjson

from .fields import Fields, refuse
from .turns import NO_CACHE

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def tool_of(tool: Fields) -> dict[str, Any]:
    """Return the function tool that a custom tool is. Raises Refused for any other kind of tool."""
    kind = tool.word("type")
    if kind not in (None, "custom"):
        refuse(tool.at("type"), "only custom tools are available on this model's route")
    function: dict[str, Any] = {"name": tool.need_string("name")}
    if (description := tool.string("description")) is not None:
        function["description"] = description
    function["parameters"] = schema = tool.need("input_schema")
    Fields(schema, tool.at("input_schema"))  # an object, whatever is in it
    if (strict := tool.flag("strict")) is not None:
        function["strict"] = strict
    tool.forbid("cache_control", NO_CACHE)
    tool.forbid("input_examples", "examples of input cannot be carried on this model's route")
    for name in ("defer_loading", "eager_input_streaming"):
        if tool.flag(name):
            refuse(tool.at(name), "is not available on this model's route")
    callers = tool.take("allowed_callers")
    if callers is not None and rawjson.decode(callers) != ["direct"]:
        refuse(tool.at("allowed_callers"), "only direct calls can be carried on this model's route")
    tool.end()
    return {"type": "function", "function": function}


def tool_choice_of(choice: Fields) -> dict[str, Any]:
    """Return `tool_choice`, and `parallel_tool_calls` where it is not the default."""
    kind = choice.word("type")
    chat: dict[str, Any] = {}
    if kind == "tool":
        chat["tool_choice"] = {"type": "function", "function": {"name": choice.need_string("name")}}
    elif kind in _CHOICES:
        chat["tool_choice"] = _CHOICES[kind]
    else:
        refuse(choice.at("type"), "expected auto, any, tool or none")
    if kind != "none" and choice.flag("disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
    choice.end()
    return chat
