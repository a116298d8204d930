"""A third-party plugin, whole: `/v1/rerank`, in batches and directly, with its own schema, settings, table, routes, a
service and a command.

Reranking orders documents by how well they answer a query. vLLM and others serve it under this path. It is a single file,
for `server.plugin_dir`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import click
import msgspec
import trio
from quart import Blueprint, Response

from fibatchd.plugin_api import (
    Batch,
    BodySchema,
    BrokenReply,
    Call,
    Context,
    Endpoint,
    Migration,
    Options,
    Problem,
    Query,
    Reply,
    Route,
    Script,
    Service,
    Usage,
    caller,
    front,
    hookimpl,
    interactive,
    rawjson,
)

PATH = "/v1/rerank"

SCHEMA = {
    "type": "object",
    "required": ["model", "query", "documents"],
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "query": {"type": "string", "x-expects": "a string"},
        "documents": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string"},
            "x-expects": "a list of strings, at least one",
        },
        "top_n": {"type": ["integer", "null"], "minimum": 1},
    },
}
BODY = BodySchema({"$schema": "https://json-schema.org/draft/2020-12/schema"} | SCHEMA)


class _Answer(msgspec.Struct):
    results: list[msgspec.Raw]
    model: msgspec.Raw = msgspec.Raw()
    usage: dict[str, Any] | None = None


class Rerank(Endpoint):
    """Passed on as it is written, the model's name aside."""

    path = PATH

    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        found = BODY.problem(rawjson.decode(body))
        return Problem(found.message, found.param) if found else None

    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        return Call(PATH, rawjson.replace_member(body, "model", msgspec.json.encode(route.upstream.model)))

    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError as error:
            raise BrokenReply(str(error)) from None
        if len(bytes(answer.model)):
            body = rawjson.replace_member(body, "model", msgspec.json.encode(route.model.id))
        total = (answer.usage or {}).get("total_tokens")
        return Reply(body, Usage(input_tokens=total) if isinstance(total, int) and total >= 0 else None)


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


# The answers that any call may get, such as 401, are put in by the core.
DESCRIPTION: dict[str, Any] = {
    "tags": [{"name": "Rerank", "description": "Documents, ordered by how well they answer a query."}],
    "paths": {
        PATH: {
            "post": {
                "tags": ["Rerank"],
                "operationId": "rerank",
                "summary": "Order documents by how well they answer a query",
                "requestBody": {"required": True} | _json({"$ref": "#/components/schemas/RerankRequest"}),
                "responses": {
                    "200": {"description": "The order."} | _json({"type": "object", "required": ["results"]}),
                    "400": {"$ref": "#/components/responses/CallRefused"},
                    "404": {"$ref": "#/components/responses/NoModel"},
                    "429": {"$ref": "#/components/responses/CallLimited"},
                    "4XX": {"$ref": "#/components/responses/UpstreamRefused"},
                    "500": {"$ref": "#/components/responses/CallFailed"},
                    "502": {"$ref": "#/components/responses/UpstreamBroken"},
                    "503": {"$ref": "#/components/responses/CallUnavailable"},
                    "504": {"$ref": "#/components/responses/UpstreamTimeout"},
                    "5XX": {"$ref": "#/components/responses/UpstreamFailed"},
                },
            }
        },
        f"{PATH}/tally": {
            "get": {
                "tags": ["Rerank"],
                "operationId": "countEndedBatches",
                "summary": "Count the batches that have ended",
                "responses": {
                    "200": {"description": "How many."}
                    | _json({"type": "object", "properties": {"ended": {"$ref": "#/components/schemas/Count"}}})
                },
            }
        },
    },
    "components": {"schemas": {"RerankRequest": SCHEMA}},
}


routes = Blueprint("rerank", __name__)


@routes.post(PATH)
async def rerank() -> Response:
    return await interactive(PATH)


@routes.get("/v1/rerank/tally")
async def tally() -> dict[str, int]:
    """How many of the caller's batches have ended since the plugin is there."""
    return {"ended": await front().context.store.read(_ended, caller().account.id)}


def _ended(account_id: str) -> Script[int]:
    rows = yield Query("SELECT ended FROM rerank_tally WHERE account_id = ?", (account_id,))
    return int(rows[0][0]) if rows else 0


def _count(batch: Batch) -> Script[None]:
    yield Query(
        "INSERT INTO rerank_tally (account_id, ended) VALUES (?, 1) "
        "ON CONFLICT (account_id) DO UPDATE SET ended = rerank_tally.ended + 1",
        (batch.account_id,),
    )


class Heartbeat:
    """Touches nothing, and beats as often as its setting says."""

    name = "rerank-heartbeat"

    def __init__(self, context: Context) -> None:
        self._context = context
        self.beats = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            self.beats += 1
            await trio.sleep(float(str(self._context.config.plugin_tables["rerank"].get("beat_s", 60))))


@click.command("rerank-accounts")
@click.pass_obj
def accounts_command(app: Any) -> None:
    """Print how many accounts have had a batch end."""

    async def count(opened: Any) -> int:
        ((found,),) = await opened.store.read(_accounts)
        return int(found)

    click.echo(app.run(count))


def _accounts() -> Script[list[tuple[Any, ...]]]:
    return (yield Query("SELECT COUNT(*) FROM rerank_tally"))


@hookimpl
def fibatchd_settings() -> Mapping[str, Mapping[str, Any]]:
    beat = {"type": "number", "exclusiveMinimum": 0, "description": "Seconds between two beats."}
    return {"rerank": {"type": "object", "additionalProperties": False, "properties": {"beat_s": beat}}}


@hookimpl
def fibatchd_migrations() -> Iterable[Migration]:
    table = "CREATE TABLE rerank_tally (account_id TEXT PRIMARY KEY, ended BIGINT NOT NULL)"
    return [Migration("rerank", 1, {"sqlite": table, "postgresql": table})]


@hookimpl
def fibatchd_commands() -> Iterable[click.Command]:
    return [accounts_command]


@hookimpl
def fibatchd_endpoints() -> Iterable[Endpoint]:
    return [Rerank()]


@hookimpl
def fibatchd_batch_ended() -> Any:
    return _count


@hookimpl
def fibatchd_routes() -> Iterable[Blueprint]:
    return [routes]


@hookimpl
def fibatchd_openapi() -> Mapping[str, Any]:
    return DESCRIPTION


@hookimpl
def fibatchd_services(context: Context) -> Iterable[Service]:
    return [Heartbeat(context)]
