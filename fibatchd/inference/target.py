"""Checks one request's body against what it is aimed at: an endpoint, and the models that its sender may use.

Batches of every form and interactive calls judge bodies here, so that a batched request is refused for the reasons for
which it would be refused if it were sent directly. Pure, and safe to use from worker threads.
"""

from dataclasses import dataclass, field

import msgspec

from fibatchd import rawjson
from fibatchd.config import Config, Model
from fibatchd.domain.accounts import Account, Key
from fibatchd.errors import InvalidJson
from fibatchd.inference import catalogue
from fibatchd.inference.endpoint import Endpoint, Options, Problem

MISSING = "missing_required_parameter"
INVALID_TYPE = "invalid_type"
INVALID = "invalid_request"


@dataclass(frozen=True, slots=True)
class Target:
    """What bodies are checked against, as of one moment.

    batch    whether they are to run in a batch: then auto models and drained ones are refused, and `stream`
    drained  ids of models that the operator drains by hand
    """

    config: Config
    account: Account
    key: Key
    endpoint: Endpoint
    batch: bool
    drained: frozenset[str] = frozenset()
    options: Options = field(default_factory=dict)
    _named: dict[bytes, Model] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Models by their name as it was written: most bodies of a batch name the same one."""

    def judge(self, body: bytes) -> Model | Problem:
        """Return the model that a body's request runs on, or why it is refused.

        `body` is JSON that `rawjson.read_object` has passed, by itself or as a part of something larger. A problem's
        `param` is the path of the field inside the body.
        """
        try:
            members = rawjson.split_object(body)
        except InvalidJson as error:
            return Problem(str(error), None, INVALID_TYPE)
        if (twice := rawjson.duplicate_member(body, members)) is not None:
            return Problem(f"{rawjson.shown(twice)}: occurs twice", rawjson.shown(twice), INVALID)
        model = self._model(members.get("model"))
        if isinstance(model, Problem):
            return model
        if self.endpoint.passes_at_sight(members):
            return model
        return (
            self.endpoint.check(body, batch=self.batch, options=self.options)
            or self.endpoint.route_problem(body, model)
            or model
        )

    def _model(self, raw: msgspec.Raw | None) -> Model | Problem:
        if raw is None:
            return Problem("model: missing, expected the name of a model", "model", MISSING)
        written = bytes(raw)
        model = self._named.get(written)
        if model is None:
            found = self._find(written)
            if isinstance(found, Problem):
                return found
            model = self._named[written] = found
        return model

    def _find(self, written: bytes) -> Model | Problem:
        name = rawjson.decode(written)
        if not isinstance(name, str):
            return Problem("model: expected a string", "model", INVALID_TYPE)
        who = (self.config, self.account, self.key)
        if self.batch:
            found = catalogue.resolve(*who, name, self.endpoint.path, self.drained)
        else:
            found = catalogue.find(*who, name, self.endpoint.path)
        if isinstance(found, Model) and not any(self.endpoint.carries(found, server) for server in found.upstreams):
            return catalogue.not_found(name)  # the model's endpoints promise what no server of it can do
        return found
