"""TLS ended by a real daemon: certificates checked by real clients and swapped while it runs; and proxies in front of it."""

import signal
import socket
import ssl
import sys

import httpx2
import pytest
import trustme
from daemons import DaemonProcess, Process, free_port, until

ANTHROPIC = {"anthropic-version": "2023-06-01"}
CONFIG = """
[server]
listen = ["127.0.0.1:{port}", "unix:{folder}/api.sock"]
data_dir = "{folder}"
tls_cert = "{folder}/cert.pem"
tls_key = "{folder}/key.pem"
drain_s = 1
[storage]
min_free_bytes = 0
[metrics]
listen = ""
[extensions]
message_batches = true
[[models]]
id = "m"
endpoints = ["/v1/chat/completions", "/v1/messages"]
upstreams = [{{ url = "echo:" }}]
"""


class TlsDaemon(Process):
    """`fibatchd serve` with the certificate that is in its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.base = f"https://127.0.0.1:{self.port}"
        self.config = folder / "fibatchd.toml"
        self.config.write_text(CONFIG.format(port=self.port, folder=folder))
        self.env = {}
        self.keys = []
        super().__init__(sys.executable, "-m", "fibatchd", "serve", "--config", str(self.config), log=folder / "log")
        until(lambda: '"ready"' in self.output())

    new_key = DaemonProcess.new_key
    run = DaemonProcess.run
    command = DaemonProcess.command
    output = DaemonProcess.output
    log_lines = DaemonProcess.log_lines

    def reload(self):
        """Have it read its files again; returns what it says of that."""
        before = len(self.log_lines())
        self.signal(signal.SIGHUP)
        until(lambda: any("reload" in line["event"] for line in self.log_lines()[before:]))
        return next(line["event"] for line in self.log_lines()[before:] if "reload" in line["event"])


def issue(folder):
    """Put a new certificate of a new authority into the folder; return what trusts it alone."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return trust


def ended_messages(client, **headers):
    """A Message Batch of one request, ended: its object has an absolute URL."""
    headers = ANTHROPIC | headers
    params = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "say"}]}
    body = {"requests": [{"custom_id": "q", "params": params}]}
    path = "/v1/messages/batches"
    made = client.post(path, json=body, headers=headers).raise_for_status().json()
    ended = {}

    def has_ended():
        ended.update(client.get(f"{path}/{made['id']}", headers=headers).raise_for_status().json())
        return ended["processing_status"] == "ended"

    until(has_ended)
    return ended


@pytest.fixture
def trust(tmp_path):
    return issue(tmp_path)


@pytest.fixture
def daemon(tmp_path, trust, processes):
    started = TlsDaemon(tmp_path)
    processes.append(started)
    return started


def healthy(daemon, trust):
    with httpx2.Client(verify=trust) as client:
        return client.get(f"{daemon.base}/healthz").status_code == 200


def test_a_batch_over_tls(daemon, trust):
    headers = {"authorization": f"Bearer {daemon.new_key()}"}
    with httpx2.Client(verify=trust, base_url=daemon.base, headers=headers, timeout=60) as client:
        ended = ended_messages(client)
        assert ended["results_url"].startswith(f"{daemon.base}/v1/messages/batches/")
        assert client.get(ended["results_url"], headers=ANTHROPIC).json()["result"]["type"] == "succeeded"
    assert [line["listen"][0] for line in daemon.log_lines() if line["event"] == "ready"] == [daemon.base]


def test_who_does_not_trust_it(daemon, tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        healthy(daemon, issue(tmp_path / "other"))
    with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        healthy(daemon, ssl.create_default_context())


def test_versions(daemon, trust):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        trust.minimum_version = trust.maximum_version = version
        trust.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            assert secure.version() == version.name.replace("_", ".")
            assert secure.selected_alpn_protocol() == "http/1.1"


def test_plain_http_on_its_port_is_not_answered(daemon, trust):
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain:
        plain.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"HTTP" not in plain.recv(1000)
    assert healthy(daemon, trust)
    assert not [line for line in daemon.log_lines() if line["level"] in ("warning", "error")]


def test_a_unix_socket_beside_it_stays_plain(daemon, tmp_path):
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(tmp_path / "api.sock"))) as client:
        assert client.get("http://local/healthz").status_code == 200


def test_a_certificate_swapped_while_it_runs(daemon, trust, tmp_path):
    with httpx2.Client(verify=trust, base_url=daemon.base) as open_connection:
        assert open_connection.get("/healthz").status_code == 200
        fresh = issue(tmp_path)
        assert healthy(daemon, trust), "not before it is told"
        assert daemon.reload() == "reloaded"
        assert healthy(daemon, fresh)
        with pytest.raises(httpx2.ConnectError):
            healthy(daemon, trust)
        assert open_connection.get("/healthz").status_code == 200, "what is open stays as it is"


def test_other_files_and_proxies_named_while_it_runs(daemon, trust, tmp_path):
    (tmp_path / "other").mkdir()
    fresh, key = issue(tmp_path / "other"), daemon.new_key()
    text = daemon.config.read_text().replace(f"{tmp_path}/cert.pem", f"{tmp_path}/other/cert.pem")
    text = text.replace(f"{tmp_path}/key.pem", f"{tmp_path}/other/key.pem")
    daemon.config.write_text(text.replace("drain_s = 1", 'drain_s = 1\ntrusted_proxies = ["127.0.0.1"]'))
    assert daemon.reload() == "reloaded"
    with httpx2.Client(verify=fresh, base_url=daemon.base, headers={"authorization": f"Bearer {key}"}) as client:
        assert ended_messages(client, **X_FORWARDED)["results_url"].startswith("https://batch.example/")


@pytest.mark.parametrize("harm", ["empty", "of another key", "gone"])
def test_a_certificate_that_is_none_leaves_the_old_one(daemon, trust, tmp_path, harm):
    (tmp_path / "other").mkdir()
    issue(tmp_path / "other")
    if harm == "empty":
        (tmp_path / "cert.pem").write_text("")
    elif harm == "gone":
        (tmp_path / "key.pem").unlink()
    else:
        (tmp_path / "other" / "key.pem").rename(tmp_path / "key.pem")
    assert daemon.reload() == "reload failed, the old configuration stays"
    (line,) = [line for line in daemon.log_lines() if line["event"].startswith("reload failed")]
    assert "server.tls_" in line["problems"][0]
    assert healthy(daemon, trust)


PROXIED = """
drain_s = 1
trusted_proxies = {proxies}
[storage]
min_free_bytes = 0
[extensions]
message_batches = true
[[models]]
id = "m"
endpoints = ["/v1/chat/completions", "/v1/messages"]
upstreams = [{{ url = "echo:" }}]
"""
X_FORWARDED = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "x-forwarded-host": "batch.example"}
FORWARDED = {"forwarded": 'for="[2001:db8::9]:4711";proto=https;host=batch.example'}


@pytest.mark.parametrize(
    ("proxies", "headers", "base", "client"),
    [
        ('["127.0.0.0/8"]', X_FORWARDED, "https://batch.example", "203.0.113.9"),
        ('["127.0.0.1"]', FORWARDED, "https://batch.example", "2001:db8::9"),
        ('["127.0.0.1"]', {}, None, "127.0.0.1"),
        ('["10.0.0.0/8"]', X_FORWARDED, None, "127.0.0.1"),
        ("[]", FORWARDED, None, "127.0.0.1"),
    ],
)
def test_the_client_behind_a_proxy(tmp_path, processes, proxies, headers, base, client):
    daemon = DaemonProcess(tmp_path, PROXIED.format(proxies=proxies))
    processes.append(daemon)
    with daemon.client(daemon.new_key()) as http:
        ended = ended_messages(http, **headers)
    assert ended["results_url"] == f"{base or daemon.base}/v1/messages/batches/{ended['id']}/results"
    (line,) = [line for line in daemon.log_lines() if line.get("method") == "POST"]
    assert line["client"] == client
