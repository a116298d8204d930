"""Inline batches: the requests stand in the create call itself. All are checked before the batch is there, and the first
that is wrong refuses the whole of it by name.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET

from fibatchd import rawjson
from fibatchd.config import CHAT_COMPLETIONS
from fibatchd.context import Caller, Context, CreateCall, RerunCall
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import NewRequest, Submitted
from fibatchd.errors import ApiError, InvalidJson
from fibatchd.ids import new_id
from fibatchd.inference.endpoint import Problem
from fibatchd.inference.items import custom_id_of, method_problem, repeated_field, unknown_field, url_of, usual_item
from fibatchd.inference.target import INVALID_TYPE, MISSING, Target
from fibatchd.store.admission import NewBatch
from fibatchd.web.endpoints import endpoint_problem
from fibatchd.web.front import front
from fibatchd.web.idempotency import created
from fibatchd.web.intake import store_batch, store_checked
from fibatchd.web.work import check_in_pieces
from fibatchd.worker import in_worker

FIELDS = frozenset({"custom_id", "method", "url", "body"})


class InlineBatches:
    """The form of `POST /v1/batches` with `requests`; a context.BatchInput."""

    source = "inline"
    member = "requests"
    allowed = frozenset({"requests", "metadata", "endpoint", "completion_window"})

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, call: CreateCall) -> Batch:
        """Check all requests and store them."""
        settings = self._context.config.batches
        items = await in_worker(_split, call.members["requests"], settings.max_requests)
        stated = call.members.get("endpoint")
        checker = Checker(self._context, call.caller, None if stated is None else rawjson.decode(stated))

        def new() -> NewBatch:
            return replace(self._new(call.caller, checker.endpoint), metadata=call.metadata)

        return created(
            await store_checked(self._context, new, len(items), check_in_pieces(checker.check, items), call.key)
        )

    async def rerun(self, call: RerunCall) -> Batch:
        """Check the requests as if they were sent now, and store them; a context.Rerun."""
        old = call.batch
        checker = Checker(self._context, call.caller, old.endpoint)
        requests: list[NewRequest] = []
        async with front().rerun_bodies(call.requests) as given:
            async for piece in given:
                requests += await in_worker(checker.check_again, len(requests), piece)
            new = replace(self._new(call.caller, old.endpoint), metadata=old.metadata, rerun_of=old.id)
            stored = await store_batch(self._context, new, requests, call.key)
        return created(stored)

    def _new(self, caller: Caller, endpoint: str) -> NewBatch:
        return NewBatch(
            id=new_id("batch_"),
            api="batches",
            source=self.source,
            account_id=caller.account.id,
            key_id=caller.key.id,
            endpoint=endpoint,
            window_s=self._context.config.batches.completion_window_s,
        )


def _split(raw: msgspec.Raw, most: int) -> Sequence[msgspec.Raw]:
    try:
        items = rawjson.split_array(raw, most)
    except InvalidJson as error:
        raise ApiError(400, f"requests: {error}", code=INVALID_TYPE, param="requests") from None
    if not items:
        raise ApiError(400, "requests: must not be empty", code="invalid_value", param="requests")
    if len(items) > most:
        raise ApiError(
            400,
            f"requests: a batch may hold at most {most} requests",
            code="too_many_requests_in_batch",
            param="requests",
        )
    return items


class Checker:
    """Checks a batch's requests in order, and remembers what each has to agree with. `endpoint` is what they all name;
    `stated` is what the call says of it, None where it says nothing."""

    def __init__(self, context: Context, caller: Caller, stated: object = None) -> None:
        self._context = context
        self._config = context.config
        self._caller = caller
        self._stated = stated
        self._seen: set[str] = set()
        self._target: Target | None = None
        self.endpoint = ""

    def check(self, start: int, items: Sequence[msgspec.Raw]) -> list[NewRequest]:
        """Check the requests at positions `start` on. Raises ApiError 400 for the first that is wrong."""
        texts = map(bytes, items)
        return [self._usual(text) or self._check(f"requests[{index}]", text) for index, text in enumerate(texts, start)]

    def check_again(self, start: int, items: Sequence[Submitted]) -> list[NewRequest]:
        """Check requests that were good before, from position `start` on. Raises ApiError 400 for the first that no longer
        is."""
        checked = []
        for offset, item in enumerate(items):
            where = f"requests[{start + offset}]"
            target = self._target or self._first_target(str(self._stated))
            found = target if isinstance(target, Problem) else self._judged(target, item.custom_id, item.body)
            if isinstance(found, Problem):
                raise _refused(f"{where} (custom_id '{item.custom_id}')", where, found)
            checked.append(found)
        return checked

    def _usual(self, text: bytes) -> NewRequest | None:
        """Return a request of the usual form that is right. None for any other: `_check` tells what is wrong with it, if
        anything."""
        item = usual_item(text)
        if item is None or item.custom_id in self._seen or self._target is None:
            return None
        if (CHAT_COMPLETIONS if item.url is UNSET else item.url) != self.endpoint:
            return None
        model = self._target.judge(body := bytes(item.body))
        if isinstance(model, Problem):
            return None
        self._seen.add(item.custom_id)
        return NewRequest(item.custom_id, model.id, body)

    def _check(self, where: str, text: bytes) -> NewRequest:
        try:
            members = rawjson.read_object(text)
        except InvalidJson as error:
            raise _refused(where, where, Problem(str(error), None, INVALID_TYPE)) from None
        custom_id = custom_id_of(members.get("custom_id"))
        if isinstance(custom_id, Problem):
            raise _refused(where, where, custom_id)
        found = self._request(custom_id, text, members)
        if isinstance(found, Problem):
            raise _refused(f"{where} (custom_id '{custom_id}')", where, found)
        return found

    def _request(self, custom_id: str, text: bytes, members: dict[str, msgspec.Raw]) -> NewRequest | Problem:
        problem = self._item_problem(custom_id, text, members)
        if problem is not None:
            return problem
        target = self._target_of(members.get("url"))
        if isinstance(target, Problem):
            return target
        body = bytes(members.get("body", b"null"))
        if body == b"null":
            return Problem("body: missing, expected an object", "body", MISSING)
        if not body.startswith(b"{"):
            return Problem("body: expected an object", "body", INVALID_TYPE)
        return self._judged(target, custom_id, body)

    def _judged(self, target: Target, custom_id: str, body: bytes) -> NewRequest | Problem:
        verdict = target.judge(body)
        if isinstance(verdict, Problem):
            param = "body" if verdict.param is None else f"body.{verdict.param}"
            return Problem(verdict.message, param, verdict.code)
        return NewRequest(custom_id, verdict.id, body)

    def _item_problem(self, custom_id: str, text: bytes, members: dict[str, msgspec.Raw]) -> Problem | None:
        if custom_id in self._seen:
            return Problem("custom_id: used by an earlier request of the batch", "custom_id", "duplicate_custom_id")
        self._seen.add(custom_id)
        if not FIELDS.issuperset(members):
            return unknown_field(next(member for member in members if member not in FIELDS))
        if (twice := rawjson.duplicate_member(text, members)) is not None:
            return repeated_field(twice)
        return method_problem(members.get("method"))

    def _target_of(self, raw: msgspec.Raw | None) -> Target | Problem:
        url = url_of(raw)
        if isinstance(url, Problem):
            return url
        url = CHAT_COMPLETIONS if url is None else url
        if self._target is None:
            return self._first_target(url)
        if url != self.endpoint:
            message = f"url: all requests of a batch use the same url, and the first uses {self.endpoint}"
            return Problem(message, "url", "invalid_url")
        return self._target

    def _first_target(self, url: str) -> Target | Problem:
        problem = endpoint_problem(self._context, url, "url")
        if problem is not None:
            return problem
        if self._stated is not None and self._stated != url:
            message = f"endpoint: must equal the url of the requests, {url}"
            raise ApiError(400, message, code="invalid_value", param="endpoint")
        self.endpoint = url
        self._target = Target(
            self._config,
            self._caller.account,
            self._caller.key,
            self._context.endpoints[url],
            batch=True,
            drained=self._context.drained,
        )
        return self._target


def _refused(name: str, where: str, problem: Problem) -> ApiError:
    param = where if problem.param is None else f"{where}.{problem.param}"
    return ApiError(400, f"{name}: {problem.message}", code=problem.code, param=param)
