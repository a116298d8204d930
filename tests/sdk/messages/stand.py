"""A daemon and a model server behind it, for SDKs that run in processes of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemons import DaemonProcess, closing_all
from message_models import ModelServer, model_server

CONFIG = """
[extensions]
message_batches = true
[storage]
url = "{storage}"
min_free_bytes = 0
[metrics]
listen = ""
[batches]
max_attempts = 3
retry_base_s = 0.01
retry_cap_s = 0.02
{batches}
[[models]]
id = "translated"
endpoints = ["/v1/messages", "/v1/chat/completions"]
concurrency = {concurrency}
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions"], model = "their-chat" }}]
[[models]]
id = "rich"
endpoints = ["/v1/messages"]
concurrency = {concurrency}
capabilities = {{ images = true, top_k = true, assistant_prefill = true, max_stop_sequences = 16 }}
upstreams = [{{ url = "{url}/v1", endpoints = ["/v1/chat/completions"], model = "their-chat" }}]
[[models]]
id = "native"
endpoints = ["/v1/messages"]
concurrency = {concurrency}
upstreams = [{{ url = "{url}", protocol = "anthropic", model = "their-messages" }}]
"""


@dataclass
class Stand:
    """`daemon` serves the models "translated", "rich" and "native" of `models`; `key` is an internal account's."""

    daemon: DaemonProcess
    models: ModelServer
    key: str


@contextmanager
def standing(folder: Path, storage: str, *, batches: str = "", concurrency: int = 8) -> Iterator[Stand]:
    """Run both for as long as the block does. `batches` is put into [batches]."""
    with model_server() as models, closing_all() as processes:
        config = CONFIG.format(storage=storage, url=models.url, batches=batches, concurrency=concurrency)
        daemon = DaemonProcess(folder, config)
        processes.append(daemon)
        yield Stand(daemon, models, daemon.new_key())
