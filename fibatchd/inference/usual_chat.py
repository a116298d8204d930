"""The usual form of a chat completion's body: turns that are nothing but text, and the common settings.

Whoever batches sends tens of thousands of these. msgspec checks one in a tenth of the time that it takes to decode it and
judge it by the schema. All that is usual here is right by the schema too (the tests hold the two together); of what is not,
nothing is said.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder


class Turn(Struct, forbid_unknown_fields=True, gc=False):
    """A message that is one text."""

    role: Literal["developer", "system", "user", "assistant"]
    content: str


_Turns = Annotated[list[Turn], Meta(min_length=1)]
_Text = Annotated[str, Meta(min_length=1)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)] | None
_Share = Annotated[float, Meta(ge=0, le=1)] | None
_Tokens = Annotated[int, Meta(ge=1)] | None

_FORMS: dict[str, Any] = {
    "model": _Text,
    "messages": _Turns,
    "frequency_penalty": _Penalty,
    "max_completion_tokens": _Tokens,
    "max_tokens": _Tokens,
    "n": Annotated[int, Meta(ge=1, le=128)] | None,
    "presence_penalty": _Penalty,
    "reasoning_effort": _Text | None,
    "seed": int | None,
    "stop": str | Annotated[list[str], Meta(max_length=4)] | None,
    "temperature": Annotated[float, Meta(ge=0, le=2)] | None,
    "top_p": _Share,
    "user": str | None,
}
_decode: dict[str, Callable[[Raw], Any]] = {name: Decoder(form).decode for name, form in _FORMS.items()}


def is_usual(members: Mapping[str, Raw]) -> bool:
    """Whether a body has the usual form. `members` are all of its own, none of them twice."""
    try:
        for name, raw in members.items():
            _decode[name](raw)
    except (KeyError, DecodeError):
        return False
    return "messages" in members and "model" in members
