"""All that a plugin may import from fibatchd. What is not here may change without notice."""

from fibatchd import rawjson
from fibatchd.config import CHAT_COMPLETIONS, Capabilities, Config, Model, Upstream
from fibatchd.context import BatchInput, Caller, Context, CreateCall, ErrorShape, Identify, Rerun, RerunCall, Service
from fibatchd.domain import states
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Failure, NewRequest, Result, Submitted, Usage
from fibatchd.errors import ApiError, InvalidJson, LeaseLost, StoreConflict, StoreError, StoreUnavailable, UnknownMember
from fibatchd.hookspecs import hookimpl
from fibatchd.ids import is_id, new_id, request_id
from fibatchd.inference.chat import ChatUsage, read_usage
from fibatchd.inference.endpoint import (
    BrokenReply,
    Call,
    Endpoint,
    Options,
    Problem,
    Refused,
    Reply,
    Route,
    StreamEditor,
)
from fibatchd.inference.items import custom_id_of, method_problem, url_of, usual_item
from fibatchd.inference.members import Members, is_null, is_string
from fibatchd.inference.schema import BodySchema, load_schema
from fibatchd.inference.sse import EventSplitter
from fibatchd.inference.target import Target
from fibatchd.metrics import Distribution, Metric, distributions
from fibatchd.scheduler.jobs import JobRunner
from fibatchd.scheduler.sweeping import keep_sweeping
from fibatchd.store import accounts, admission, batches, ending, jobs, results
from fibatchd.store.ending import Policy
from fibatchd.store.fence import pass_fence
from fibatchd.store.interface import NOW, Insert, Many, Notify, Query, Row, Script, Store, one
from fibatchd.store.migrate import Migration, from_package
from fibatchd.upstream.outcome import retry_after
from fibatchd.web import idempotency, paging
from fibatchd.web.access import require_access, require_batches, require_for_creation, require_quota, require_room
from fibatchd.web.address import base_url
from fibatchd.web.ahead import Ahead
from fibatchd.web.attempts import Attempts
from fibatchd.web.auth import caller, caller_by, caller_of_key, public
from fibatchd.web.conditional import not_modified
from fibatchd.web.endpoints import endpoint_problem
from fibatchd.web.fields import read_fields
from fibatchd.web.fixed import FixedBytes, fixed_answer
from fibatchd.web.front import front
from fibatchd.web.guards import LimitedBody, read_body
from fibatchd.web.intake import store_batch, store_checked
from fibatchd.web.interactive import interactive
from fibatchd.web.openapi import read_fragment
from fibatchd.web.reading import read_pieces
from fibatchd.web.render import batch_object, error_object, list_object, output_lines
from fibatchd.web.work import check_in_pieces
from fibatchd.worker import in_worker

__all__ = [
    "CHAT_COMPLETIONS", "NOW", "Account", "Ahead", "ApiError", "Attempts", "Batch", "BatchInput", "BodySchema", "BrokenReply",
    "Call", "Caller", "Capabilities", "ChatUsage", "Config", "Context", "CreateCall", "Distribution", "Endpoint",
    "ErrorShape", "EventSplitter", "Failure", "FixedBytes", "Identify", "Insert", "InvalidJson", "JobRunner", "Key",
    "LeaseLost", "LimitedBody", "Many", "Members", "Metric", "Migration", "Model", "NewRequest", "Notify", "Options",
    "Policy", "Problem", "Query", "Refused", "Reply", "Rerun", "RerunCall", "Result", "Route", "Row", "Script", "Service",
    "Store", "StoreConflict", "StoreError", "StoreUnavailable", "StreamEditor", "Submitted", "Target", "UnknownMember",
    "Upstream", "Usage", "accounts", "admission", "base_url", "batch_object", "batches", "caller", "caller_by",
    "caller_of_key", "check_in_pieces", "custom_id_of", "distributions", "ending", "endpoint_problem", "error_object",
    "fixed_answer", "from_package", "front", "hookimpl", "idempotency", "in_worker", "interactive", "is_id", "is_null",
    "is_string", "jobs", "keep_sweeping", "list_object", "load_schema", "method_problem", "new_id", "not_modified", "one",
    "output_lines", "paging", "pass_fence", "public", "rawjson", "read_body", "read_fields", "read_fragment",
    "read_pieces", "read_usage", "request_id", "require_access", "require_batches", "require_for_creation", "require_quota",
    "require_room", "results", "retry_after", "states", "store_batch", "store_checked", "url_of", "usual_item",
]  # fmt: skip
