"""`fibatchd model`: which models are in service, and taking one out of it by hand."""

from pathlib import Path
from typing import Any

import click

from fibatchd.cli.opening import Opened, run
from fibatchd.cli.options import config_option, text
from fibatchd.cli.tables import show
from fibatchd.config import Config
from fibatchd.errors import FibatchdError
from fibatchd.store import drains

model_id = click.argument("model_id", type=text)


@click.group()
def command() -> None:
    """List models, and drain them.

    A change counts on every daemon within a few seconds, and until it is undone."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@config_option
def list_models(as_json: bool, config_path: Path | None) -> None:
    """List the configuration's models, and which are drained."""

    async def work(opened: Opened) -> list[dict[str, Any]]:
        drained = await opened.store.read(drains.drained)
        return [
            {
                "id": model.id,
                "drained_by": "configuration" if model.drain else "operator" if model.id in drained else None,
                "drained_at": int(drained[model.id]) if model.id in drained else None,
            }
            for model in opened.config.models
        ]

    show(run(config_path, work), as_json=as_json, empty="no models")


@command.command()
@model_id
@config_option
def drain(model_id: str, config_path: Path | None) -> None:
    """Take a model out of service: nothing new is accepted, what is queued waits, what runs ends."""

    async def work(opened: Opened) -> None:
        _check_known(opened.config, model_id)
        await opened.store.write(drains.drain, model_id)

    run(config_path, work)


@command.command()
@model_id
@config_option
def undrain(model_id: str, config_path: Path | None) -> None:
    """Put a drained model back into service."""

    async def work(opened: Opened) -> bool:
        model = opened.config.find_model(model_id)
        if model is not None and model.drain:
            raise FibatchdError(f"the configuration drains {model_id}; it is put back there")
        return await opened.store.write(drains.undrain, model_id)

    if not run(config_path, work):
        raise FibatchdError(f"{model_id} is not drained")


def _check_known(config: Config, model_id: str) -> None:
    model = config.find_model(model_id)
    if model is None or model.id != model_id:
        raise FibatchdError(f"the configuration has no model {model_id!r}; name it by its id")
