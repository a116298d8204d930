"""The interactive route."""

from quart import Blueprint, Response

from fibatchd.plugin_api import interactive

from .endpoint import PATH

routes = Blueprint("responses", __name__)


@routes.post(PATH)
async def create_response() -> Response:
    """Respond now. The routes of stored responses do not exist: there are none."""
    return await interactive(PATH)
