"""The admin API's routes: for administrators only."""

from quart import Blueprint

from fibatchd.errors import ApiError
from fibatchd.inference.entitlement import is_admin
from fibatchd.web.admin import accounts, models, usage
from fibatchd.web.auth import caller

PREFIX = "/v1/admin"


async def require_admin() -> None:
    """Before each request: ApiError 403 for whoever is no administrator."""
    who = caller()
    if not is_admin(who.account, who.key):
        raise ApiError(403, "Only administrators may do this", code="admin_required")


def blueprint() -> Blueprint:
    """Return the routes."""
    routes = Blueprint("admin", __name__, url_prefix=PREFIX)
    routes.before_request(require_admin)
    routes.get("/models")(models.list_models)
    routes.get("/models/<path:model_id>")(models.show_model)
    routes.post("/models/<path:model_id>/drain")(models.drain_model)
    routes.delete("/models/<path:model_id>/drain")(models.undrain_model)
    routes.get("/daemons")(models.list_daemons)
    routes.get("/tiers")(accounts.list_tiers)
    routes.get("/accounts")(accounts.list_accounts)
    routes.post("/accounts")(accounts.create_account)
    routes.get("/accounts/<account_id>")(accounts.show_account)
    routes.delete("/accounts/<account_id>")(accounts.delete_account)
    routes.post("/accounts/<account_id>/suspend")(accounts.suspend_account)
    routes.post("/accounts/<account_id>/resume")(accounts.resume_account)
    routes.put("/accounts/<account_id>/tier")(accounts.set_tier)
    routes.put("/accounts/<account_id>/quota")(accounts.set_quota)
    routes.get("/accounts/<account_id>/keys")(accounts.list_keys)
    routes.post("/accounts/<account_id>/keys")(accounts.create_key)
    routes.delete("/keys/<key_id>")(accounts.revoke_key)
    routes.get("/accounts/<account_id>/usage")(usage.show_account_usage)
    routes.get("/usage")(usage.show_usage)
    routes.get("/usage/<day>")(usage.show_day)
    return routes
