"""The interactive route."""

from quart import Blueprint, Response

from fibatchd.plugin_api import interactive

from .endpoint import PATH

routes = Blueprint("embeddings", __name__)


@routes.post(PATH)
async def create_embeddings() -> Response:
    """Embed now."""
    return await interactive(PATH)
