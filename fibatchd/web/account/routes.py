"""The account API's routes. None but `rerun` asks for batch access or quota: looking at what is there never does."""

from collections.abc import Iterable

from quart import Blueprint

from fibatchd.context import Rerun
from fibatchd.web.access import require_batches
from fibatchd.web.account.batches import list_batches, show_batch
from fibatchd.web.account.progress import show_progress
from fibatchd.web.account.requests import list_requests, show_request
from fibatchd.web.account.rerun import Reruns
from fibatchd.web.account.usage import show_account, show_usage


def blueprints(ways: Iterable[Rerun]) -> list[Blueprint]:
    """Return the routes; `ways` are those in which batches can be run again."""
    account = Blueprint("account", __name__)
    account.get("/v1/account")(show_account)
    account.get("/v1/usage")(show_usage)
    batches = Blueprint("account_batches", __name__)
    batches.before_request(require_batches)
    batches.get("/v1/account/batches")(list_batches)
    batches.get("/v1/account/batches/<batch_id>")(show_batch)
    batches.get("/v1/account/batches/<batch_id>/progress")(show_progress)
    batches.get("/v1/account/batches/<batch_id>/requests")(list_requests)
    batches.get("/v1/account/batches/<batch_id>/requests/<index>")(show_request)
    batches.post("/v1/batches/<batch_id>/rerun")(Reruns(ways).rerun_batch)
    return [account, batches]
