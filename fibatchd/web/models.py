"""`GET /v1/models`: the models that the caller's key may use, as OpenAI lists them."""

from typing import Any

from quart import Blueprint, Response

from fibatchd.config import Model
from fibatchd.errors import ApiError
from fibatchd.inference import catalogue
from fibatchd.web.auth import caller
from fibatchd.web.front import front
from fibatchd.web.render import encode

blueprint = Blueprint("models", __name__)

CREATED = 0
"""When a model was made is nothing the operator tells; the SDKs want a number."""


@blueprint.get("/v1/models")
async def list_models() -> Response:
    """Return the list."""
    models = [_model_object(model) for model in _usable()]
    return Response(encode({"object": "list", "data": models}), content_type="application/json")


@blueprint.get("/v1/models/<path:name>")
async def show_model(name: str) -> Response:
    """Return one model, by its id or an alias."""
    for model in _usable():
        if name == model.id or name in model.aliases:
            return Response(encode(_model_object(model)), content_type="application/json")
    raise ApiError(404, "Model not found", code=catalogue.NOT_FOUND, param="model")


def _usable() -> list[Model]:
    who = caller()
    return catalogue.usable(front().context.config, who.account, who.key)


def _model_object(model: Model) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": CREATED, "owned_by": "fibatchd"}
