"""The manual's installation on a fresh machine, line by line, and what the units promise, under systemd itself and all of their
hardening: seccomp filters, namespaces, no capabilities.

It needs the binary (`make binary`), root, and a kernel that lets it mount: elsewhere it is skipped.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from daemons import until
from machine import CannotBoot, Machine, is_possible

ROOT = Path(__file__).parents[2]
BINARY = ROOT / "dist" / "fibatchd"
BASE = "http://127.0.0.1:8787"
pytestmark = pytest.mark.torture


def manual(heading):
    """The shell blocks of a chapter of docs/install.md."""
    text = (ROOT / "docs" / "install.md").read_text()
    return re.findall(r"^```sh\n(.*?)^```", text.partition(f"\n## {heading}")[2].partition("\n## ")[0], re.M | re.S)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    if not BINARY.exists() or os.geteuid() != 0 or is_possible():
        pytest.skip(is_possible() or "needs root and the binary: make binary")
    try:
        machine = Machine(tmp_path_factory.mktemp("machine"))
    except CannotBoot as problem:
        pytest.skip(f"no machine of its own can be had here: {problem}")
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def key(machine):
    """The key of the account that is made when all is installed as the manual says."""
    shutil.copy(BINARY, machine.given)
    shutil.copytree(ROOT / "systemd", machine.given / "systemd")
    files, first_start = manual("A fresh Debian, under systemd")
    machine.run(f"install -m 755 /run/given/fibatchd /usr/local/bin/\ncd /run/given\n{files}")
    return re.findall(r"hyi-[\w-]{43}", machine.run(first_start))[-1]


def shown(machine, name, unit="fibatchd"):
    return machine.run(f"systemctl show --value --property={name} {unit}")


def call(machine, key, path, body=None):
    data = f"--data '{json.dumps(body)}' -H 'Content-Type: application/json'" if body else ""
    return json.loads(machine.run(f"curl -sS -H 'Authorization: Bearer {key}' {data} {BASE}{path}"))


def runs_a_batch(machine, key):
    """A batch's id, when it is complete."""
    body = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}
    made = call(machine, key, "/v1/batches", {"requests": [{"custom_id": "a", "body": body}]})
    until(lambda: call(machine, key, f"/v1/batches/{made['id']}")["status"] == "completed")
    return made["id"]


def is_ready(machine):
    return machine.run(f"curl -sS {BASE}/readyz", check=False) == '{"status":"ready"}'


def test_the_manuals_installation_serves(machine, key):
    """`enable --now` returns when it is ready, as a Type=notify unit does."""
    assert is_ready(machine)
    assert shown(machine, "StatusText") == f"Serving {BASE}"
    runs_a_batch(machine, key)


def test_the_main_process_is_the_server_without_rights(machine, key):
    status = machine.run(f"cat /proc/{shown(machine, 'MainPID')}/status")
    told = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert told["Name"] == "fibatchd"
    assert told["Uid"].split() == [machine.run("id -u fibatchd")] * 4
    assert (int(told["CapEff"], 16), int(told["CapBnd"], 16)) == (0, 0)
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")
    assert machine.run("stat -c '%a %U' /var/lib/fibatchd /var/lib/fibatchd/fibatchd.db").split() == [
        "700", "fibatchd", "600", "fibatchd",
    ]  # fmt: skip


def test_reload(machine, key):
    config = "/etc/fibatchd/fibatchd.toml"
    machine.run(f"echo '[nonsense]' >> {config}; systemctl reload fibatchd")
    until(lambda: "reload failed" in shown(machine, "StatusText"))
    assert is_ready(machine)
    machine.run(f"sed -i /nonsense/d {config}; systemctl reload fibatchd")
    until(lambda: "reload failed" not in shown(machine, "StatusText"))


def test_the_journal_has_the_logs_fields(machine, key):
    batch = runs_a_batch(machine, key)
    until(lambda: machine.run(f"journalctl FIBATCHD_BATCH={batch} FIBATCHD_EVENT='batch ended' -o cat"), within=30)
    entries = machine.run(f"journalctl -u fibatchd -o json FIBATCHD_BATCH={batch}").splitlines()
    told = [json.loads(entry) for entry in entries]
    assert [entry["FIBATCHD_EVENT"] for entry in told] == ["batch created", "batch moved on", "batch ended"]
    assert {entry["PRIORITY"] for entry in told} == {"6"}
    assert json.loads(told[-1]["MESSAGE"])["completed"] == 1


def test_killed_it_is_started_again(machine, key):
    machine.run(f"kill -KILL {shown(machine, 'MainPID')}")
    until(lambda: shown(machine, "NRestarts") == "1" and is_ready(machine))
    runs_a_batch(machine, key)


def test_one_that_hangs_is_ended_by_the_watchdog(machine, key):
    drop_in = "/run/systemd/system/fibatchd.service.d"
    machine.run(f"mkdir -p {drop_in}; printf '[Service]\nWatchdogSec=5\n' > {drop_in}/soon.conf")
    machine.run("systemctl daemon-reload; systemctl restart fibatchd")
    since = machine.run("date +'%F %T'")
    fed = {shown(machine, "WatchdogTimestampMonotonic")}
    until(lambda: fed.add(shown(machine, "WatchdogTimestampMonotonic")) or len(fed) > 5)  # each 5/3 s
    assert shown(machine, "NRestarts") == "0"
    machine.run(f"kill -STOP {shown(machine, 'MainPID')}")
    until(lambda: shown(machine, "NRestarts") == "1" and is_ready(machine))
    assert "watchdog" in machine.run(f"journalctl --since '{since}' _PID=1 -o cat").lower()
    machine.run(f"rm {drop_in}/soon.conf; systemctl daemon-reload; systemctl restart fibatchd")


def test_a_restart_behind_its_socket_refuses_nobody(machine, key):
    machine.run("sed -i '1i [server]\\nlisten = [\"fd://\"]' /etc/fibatchd/fibatchd.toml; systemctl stop fibatchd")
    machine.run("systemctl enable --now fibatchd.socket; systemctl restart fibatchd")
    ask = f"curl -sS -m 60 -o /dev/null -w '%{{http_code}}\\n' {BASE}/healthz || echo refused"
    answers = machine.run(
        f"(while ! [ -e /tmp/enough ]; do {ask}; done > /tmp/answers) & systemctl restart fibatchd; touch /tmp/enough; wait; "
        "sort /tmp/answers | uniq"
    )
    assert answers == "200"
    runs_a_batch(machine, key)


def test_stopped_it_has_succeeded(machine, key):
    machine.run("systemctl stop fibatchd.socket fibatchd")
    assert (shown(machine, "Result"), shown(machine, "ExecMainStatus")) == ("success", "0")


def test_an_instance(machine, key):
    settings = '[server]\nlisten = ["127.0.0.1:8801"]\n[metrics]\nlisten = ""\n'
    machine.run(f"install -m 640 -g fibatchd /dev/stdin /etc/fibatchd/a.toml <<'END'\n{settings}\nEND")
    machine.run(
        "systemctl start fibatchd@a; curl -fsS http://127.0.0.1:8801/readyz; test -e /var/lib/fibatchd/a/fibatchd.db"
    )
    machine.run("systemctl stop fibatchd@a")
    assert shown(machine, "Result", "fibatchd@a") == "success"
