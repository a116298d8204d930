"""All that a plugin may import from fibatchd. What is not here may change without notice."""

from fibatchd import rawjson
from fibatchd.config import Config, Model, Upstream
from fibatchd.context import BatchInput, Caller, Context, CreateCall, ErrorShape, Service
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Failure, NewRequest, Result, Usage
from fibatchd.errors import ApiError, InvalidJson, StoreConflict, StoreError, StoreUnavailable
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
from fibatchd.inference.schema import BodySchema
from fibatchd.inference.sse import EventSplitter
from fibatchd.store import admission, batches, ending, jobs, results
from fibatchd.store.interface import NOW, Insert, Many, Notify, Query, Script, Store, one
from fibatchd.store.migrate import Migration, from_package

__all__ = [
    "NOW", "Account", "ApiError", "Batch", "BatchInput", "BodySchema", "BrokenReply", "Call", "Caller", "ChatUsage",
    "Config", "Context", "CreateCall", "Endpoint", "ErrorShape", "EventSplitter", "Failure", "Insert", "InvalidJson",
    "Key", "Many", "Migration", "Model", "NewRequest", "Notify", "Options", "Problem", "Query", "Refused", "Reply",
    "Result", "Route", "Script", "Service", "Store", "StoreConflict", "StoreError", "StoreUnavailable", "StreamEditor",
    "Upstream", "Usage", "admission", "batches", "ending", "from_package", "hookimpl", "is_id", "jobs", "new_id", "one",
    "rawjson", "read_usage", "request_id", "results",
]  # fmt: skip
