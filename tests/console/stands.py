"""What the console is tested against: a daemon with everything switched on, its model's server, a webhook's receiver."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from daemons import ALL_EXTENSIONS, DaemonProcess, ModelServerProcess, Process, chat, closing_all
from hook_receiver import HookReceiver, hook_receiver

CONFIG = (
    """
trusted_proxies = ["127.0.0.1"]
[storage]
min_free_bytes = 0
[batches]
create_tiers = ["internal", "admin", "pro"]
max_unfinished_batches = 1000
max_unfinished_requests = 1000000
max_uploads_per_hour = 1000
max_attempts = 2
retry_base_s = 0.05
retry_cap_s = 0.2
[webhooks]
allow_private_addresses = true
max_attempts = 2
retry_base_s = 0.05
retry_cap_s = 0.2
[tiers.pro]
batch_concurrency = 16
daily_quota_usd = "20.00"
[[models]]
id = "glm-5.3-flash"
aliases = ["glm-flash"]
endpoints = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]
concurrency = 16
capacity = 64
price_usd_per_million = {{ input = "0.10", output = "0.40" }}
upstreams = [{{ url = "{model}/v1", endpoints = ["/v1/chat/completions"] }}]
[[models]]
id = "qwen3.6-35b"
concurrency = 8
price_usd_per_million = {{ input = "0.20", output = "0.80" }}
upstreams = [{{ url = "{model}/v1" }}, {{ url = "{model}/v1/", weight = 0.5 }}]
[[models]]
id = "phi-5-mini"
concurrency = 4
upstreams = [{{ url = "{model}/v1" }}]
"""
    + ALL_EXTENSIONS
)
BARE = """
trusted_proxies = ["127.0.0.1"]
[storage]
min_free_bytes = 0
[extensions]
console = true
[[models]]
id = "glm-5.3-flash"
upstreams = [{{ url = "{model}/v1" }}]
"""
"""Nothing is switched on but the console."""
GLM, QWEN, PHI = "glm-5.3-flash", "qwen3.6-35b", "phi-5-mini"
RULES = [
    {"match": "please hold", "action": {"hold": True}},
    {"match": "please fail", "action": {"status": 400}},
    {"match": "please wait", "action": {"delay": 1.0}},
]
MESSAGES = {"anthropic-version": "2023-06-01"}


@dataclass(frozen=True)
class Account:
    id: str
    name: str
    secret: str
    key_id: str
    api: httpx2.Client
    """The API, called with its key."""

    def submit(self, requests: list[dict[str, Any]], **more: Any) -> str:
        """Create an inline batch; return its id."""
        answer = self.api.post("/v1/batches", json={"requests": requests} | more).raise_for_status()
        return str(answer.json()["id"])

    def submit_file(self, content: str, name: str, **more: Any) -> str:
        """Create a batch from a file; return its id."""
        upload = {"file": (name, content.encode())}
        file = self.api.post("/v1/files", files=upload, data={"purpose": "batch"}).raise_for_status().json()
        body = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"} | more
        return str(self.api.post("/v1/batches", json=body).raise_for_status().json()["id"])

    def submit_messages(self, requests: list[dict[str, Any]]) -> str:
        """Create a Message Batch; return its id."""
        answer = self.api.post("/v1/messages/batches", json={"requests": requests}, headers=MESSAGES)
        return str(answer.raise_for_status().json()["id"])


class Stand:
    def __init__(self, processes: list[Process], folder: Path, receiver: HookReceiver, config: str) -> None:
        self.processes, self.receiver = processes, receiver
        self.model = ModelServerProcess()
        processes.append(self.model)
        self.rules()
        self.daemon = DaemonProcess(folder, config.format(model=self.model.url))
        processes.append(self.daemon)
        self.base = self.daemon.base
        self.clients: list[httpx2.Client] = []
        self.admin = self._owner(self.daemon.new_key("admin"))
        self.admin = self.account("Margaret Hamilton", "admin")

    def _owner(self, secret: str) -> Account:
        api = self.daemon.client(secret)
        self.clients.append(api)
        me = api.get("/v1/account").raise_for_status().json()
        return Account(me["id"], me["name"], secret, me["key"]["id"], api)

    def account(self, name: str, tier: str = "internal") -> Account:
        """Create an account with a key."""
        new = {"name": name, "tier": tier}
        made = self.admin.api.post("/v1/admin/accounts", json=new).raise_for_status().json()
        key = self.admin.api.post(f"/v1/admin/accounts/{made['id']}/keys").raise_for_status().json()
        self.daemon.keys.append(key["secret"])
        return self._owner(key["secret"])

    def restart(self) -> None:
        """Start the daemon again, which has ended, on the same port and data."""
        self.daemon = self.daemon.start_again()
        self.processes.append(self.daemon)
        self.daemon.wait_ready()

    def rules(self, *more: dict[str, Any], delay: float = 0.0) -> None:
        """Set what the model does, the first rule that matches counts; and let go what it holds."""
        self.model.control(rules=[*more, *RULES], delay=delay)


@contextmanager
def stand(folder: Path, config: str = CONFIG) -> Iterator[Stand]:
    with closing_all() as processes, hook_receiver() as receiver:
        opened = Stand(processes, folder, receiver, config)
        try:
            yield opened
        finally:
            for api in opened.clients:
                api.close()


def line(custom_id: str, content: str, model: str = GLM, **more: Any) -> str:
    """One line of an input file."""
    return json.dumps({"method": "POST", "url": "/v1/chat/completions"} | chat(custom_id, content, model) | more) + "\n"


def lines(amount: int, content: str = "Say", model: str = GLM) -> str:
    return "".join(line(f"q-{number}", f"{content} {number}", model) for number in range(amount))


def chats(amount: int, content: str = "Say", model: str = GLM) -> list[dict[str, Any]]:
    return [chat(f"q-{number}", f"{content} {number}", model) for number in range(amount)]


def message(custom_id: str, content: str, model: str = GLM) -> dict[str, Any]:
    """One request of a Message Batch."""
    return {
        "custom_id": custom_id,
        "params": {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": content}]},
    }
