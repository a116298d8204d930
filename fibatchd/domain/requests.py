"""A batch's requests: as they come in, as they are claimed to run, as they end, as they are read.

What is made for each request or attempt is a `Struct`, which is made in a fifth of a frozen dataclass' time.
"""

import re
from dataclasses import dataclass

from msgspec import Struct

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request (or its last attempt) failed. `status` is the HTTP status behind it, None where there was none."""

    code: str
    message: str
    status: int | None = None

    def columns(self) -> tuple[str, str, int | None]:
        """Return it as it is stored. A message may quote what a client or a model wrote; NUL and lone surrogates, which no
        database takes, are replaced."""
        return self.code, _UNSTORABLE.sub("\ufffd", self.message), self.status


class NewRequest(Struct, frozen=True, eq=False):
    """One request of a batch being created. `body` is the client's own bytes. `failure` is set where it was refused by
    its own check and never runs, though its batch does."""

    custom_id: str
    model: str
    body: bytes
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """One request of a batch as it was sent: `body` is the client's own bytes."""

    custom_id: str
    body: bytes


class Claimed(Struct, frozen=True, eq=False):
    """One request taken to run: its attempt is counted already. `lease` is the id of the daemon that took it, `lane` the
    (batch, model) row it was taken from; `options` are the batch's, as JSON text; `tier` is the account's at that time."""

    number: int
    attempt: int
    lease: int
    lane: int
    batch_id: str
    account_id: str
    key_id: str
    model: str
    endpoint: str
    options: str | None
    body: bytes
    tier: str = ""


class Usage(Struct, frozen=True):
    """Tokens of one answer. `cached_tokens` are part of `input_tokens`, `reasoning_tokens` of `output_tokens`."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class Outcome(Struct, frozen=True):
    """How one attempt ended.

    `answer` is a success's (status code, body). Otherwise `failure` says what went wrong; with `retry_in`
    (seconds) the request is queued again, without it has failed. `sent` is False where nothing reached an upstream: then
    it is given back, due as it was or after `retry_in`, and the attempt is not counted. `cost` is pico-USD, or None when it
    cannot be known.
    """

    claimed: Claimed
    request_id: str
    answer: tuple[int, bytes] | None = None
    failure: Failure | None = None
    retry_in: float | None = None
    usage: Usage | None = None
    cost: int | None = 0
    sent: bool = True


class Result(Struct, frozen=True):
    """One request as readers see it, with what its batch's end made of it. `status` is queued, running, completed,
    failed, cancelled or expired."""

    number: int
    custom_id: str
    status: str
    request_id: str | None
    status_code: int | None
    body: bytes | None
    failure: Failure | None
