"""Scripts on the models that the operator has taken out of service by hand; those drained by configuration are not here."""

from fibatchd.store.interface import NOW, Notify, Query, Script

CHANNEL = "drained"


def drain(model_id: str) -> Script[None]:
    """Take a model out of service on all daemons. One that is keeps the time since when."""
    ((now,),) = yield NOW
    yield Query(
        "INSERT INTO drained_models (model, since) VALUES (?, ?) ON CONFLICT (model) DO NOTHING", (model_id, now)
    )
    yield Notify(CHANNEL, model_id)


def undrain(model_id: str) -> Script[bool]:
    """Put a model back into service. False where it was not out."""
    rows = yield Query("DELETE FROM drained_models WHERE model = ? RETURNING model", (model_id,))
    yield Notify(CHANNEL, model_id)
    yield Notify("work", model_id)
    return bool(rows)


def drained() -> Script[dict[str, float]]:
    """Return the models that are out of service, with the time since when."""
    rows = yield Query("SELECT model, since FROM drained_models ORDER BY model")
    return {model: since for model, since in rows}
