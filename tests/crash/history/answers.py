"""What a result says: which attempt of the upstream it is the answer of, and whether it is that answer unharmed."""

import json
from typing import Any

from history.story import Attempt


def number_of(form: str, body: Any) -> int | None:
    """The number of the attempt that a result claims to be the answer of; None where it is no answer at all."""
    try:
        if form == "embeddings":
            return int(body["data"][0]["embedding"][0])
        return int(_text(form, body).rpartition("#")[2])
    except (KeyError, ValueError, TypeError, IndexError, StopIteration):
        return None


def is_answer(form: str, body: dict[str, Any], attempt: Attempt) -> bool:
    """Whether a result is what the upstream answered to that attempt: byte for byte but the model's name, or where its
    API is another, in its text."""
    if attempt.answer is None:
        return False
    if form in ("inline", "file", "embeddings"):
        public = attempt.model.removeprefix("up-")
        return json.dumps(body) == attempt.answer.replace(f'"model": "{attempt.model}"', f'"model": "{public}"')
    return _text(form, body) == json.loads(attempt.answer)["choices"][0]["message"]["content"]


def _text(form: str, body: dict[str, Any]) -> str:
    if form == "message":
        return str(body["content"][0]["text"])
    if form == "responses":
        message = next(item for item in body["output"] if item["type"] == "message")
        return str(message["content"][0]["text"])
    return str(body["choices"][0]["message"]["content"])
