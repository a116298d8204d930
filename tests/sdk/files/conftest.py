"""A daemon for the OpenAI SDKs, its models built in; limits are wide enough for pagers."""

import json

import daemons
import pytest

CONFIG = """
[storage]
url = "{storage}"
min_free_bytes = 0
[extensions]
files = true
[batches]
max_uploads_per_hour = 10000
max_unfinished_batches = 10000
retry_base_s = 0.01
retry_cap_s = 0.02
[[models]]
id = "glm-5.3-flash"
aliases = ["glm-flash"]
price_usd_per_million = {{ input = "0.10", output = "0.40" }}
[[models.upstreams]]
url = "{upstream}/v1"
"""


@pytest.fixture
def daemon(tmp_path, request):
    """A daemon on the storage that the test names, "sqlite" unless it does."""
    kind = getattr(request, "param", "sqlite")
    storage = "sqlite:fibatchd.db" if kind == "sqlite" else request.getfixturevalue("empty_postgres")
    with daemons.closing_all() as processes:
        upstream = daemons.ModelServerProcess()
        processes.append(upstream)
        refuse = {
            "match": "refuse this",
            "action": {"status": 400, "body": json.dumps({"error": {"message": "refused"}})},
        }
        slow = {"match": "take your time", "action": {"delay": 60}}
        upstream.control(rules=[refuse, slow])
        running = daemons.DaemonProcess(tmp_path, CONFIG.format(storage=storage, upstream=upstream.url))
        processes.append(running)
        yield running
