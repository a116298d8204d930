"""Which model a name means to a caller, and whether it may be used: the same answer for batches, interactive calls, the
re-check before every attempt, and the list of models.

Pure: what decides is the configuration as it is now, the account's tier, the key's own list of models.
"""

import re
from collections.abc import Collection

from fibatchd.config import Config, Model
from fibatchd.domain.accounts import Account, Key
from fibatchd.inference.endpoint import Problem

NOT_FOUND = "model_not_found"
UNAVAILABLE = "model_unavailable"

_LONGEST_NAME = 200  # characters of a client's model name that a message repeats
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def usable(config: Config, account: Account, key: Key) -> list[Model]:
    """Return the models this key may use, in the configuration's order."""
    return [model for model in config.models if _open_to(model, account, key)]


def is_allowed(config: Config, account: Account, key: Key, model_id: str, endpoint: str) -> bool:
    """Whether a request pinned to this model id may still run: the model is there, serves the endpoint, and is open to
    the account and the key. One that is only drained is allowed; it waits."""
    model = config.find_model(model_id)
    # An id that has become another model's alias since is not the model that the request was pinned to.
    return model is not None and model.id == model_id and _serves(model, account, key, endpoint)


def find(config: Config, account: Account, key: Key, name: str, endpoint: str) -> Model | Problem:
    """Return the model that a name or alias means to this caller on this endpoint.

    One that may not be used is reported exactly like one that does not exist.
    """
    model = config.find_model(name)
    if model is None or not _serves(model, account, key, endpoint):
        return not_found(name)
    return model


def not_found(name: str) -> Problem:
    """Return what is said of a model that is not there for the caller, whatever the reason."""
    return Problem(f"Model '{_quotable(name)}' not found", "model", NOT_FOUND)


def resolve(
    config: Config, account: Account, key: Key, name: str, endpoint: str, drained: Collection[str]
) -> Model | Problem:
    """Return the model that a batched request is to be pinned to. Beyond `find`, an auto model is refused, and one that
    takes nothing new: drained by the configuration, or one of `drained`, the ids that the operator drains by hand."""
    if name == "auto" or name.startswith("auto-"):
        message = f"Auto models such as '{_quotable(name)}' cannot be used in a batch; name a model by its id"
        return Problem(message, "model", NOT_FOUND)
    model = find(config, account, key, name, endpoint)
    if isinstance(model, Model) and is_drained(model, drained):
        return Problem(f"Model '{_quotable(name)}' is unavailable at the moment", "model", UNAVAILABLE)
    return model


def is_drained(model: Model, drained: Collection[str]) -> bool:
    """Whether the operator has taken the model out of service, by the configuration or by hand."""
    return model.drain or model.id in drained


def _open_to(model: Model, account: Account, key: Key) -> bool:
    return model.is_open_to(account.tier) and (key.models is None or model.id in key.models)


def _serves(model: Model, account: Account, key: Key, endpoint: str) -> bool:
    return endpoint in model.endpoints and _open_to(model, account, key)


def _quotable(name: str) -> str:
    """Cut a client's text for a message, which databases and encoders must be able to hold."""
    name = _NOT_TEXT.sub("\ufffd", name)
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
