"""What users do: the demo, the three ways in with the official SDKs, PostgreSQL, a third-party plugin."""

import json
import re
import shutil
import sys
import sysconfig
import time
from pathlib import Path

import anthropic
import httpx2
import openai
import pytest
from daemons import ALL_EXTENSIONS, chat, finished, results
from shipped import ShippedDaemon

CONSOLE = Path(__file__).parents[2] / "plugins" / "console" / "page"
EXAMPLE = Path(__file__).parents[1] / "example_plugin" / "rerank.py"
CONFIG = (
    """
{server}
[storage]
min_free_bytes = 0
{storage}
[[models]]
id = "m"
endpoints = ["/v1/chat/completions", "/v1/messages"{endpoints}]
upstreams = [{{ url = "{upstream}/v1", endpoints = ["/v1/chat/completions"{endpoints}] }}]
"""
    + ALL_EXTENSIONS
    + "{extensions}\n"
)


def config(upstream, **more):
    parts = dict.fromkeys(("server", "storage", "extensions", "endpoints"), "")
    return CONFIG.format(**parts | more, upstream=upstream.url)


@pytest.fixture
def serving(program, tmp_path, processes, upstream):
    """A function that starts a daemon."""

    def start(**more):
        daemon = ShippedDaemon(program, tmp_path, config(upstream, **more))
        processes.append(daemon)
        return daemon

    return start


@pytest.mark.usefixtures("demo_port")
def test_demo(program, tmp_path):
    assert "40 completed, 0 failed" in program.run("demo", "--exit", cwd=tmp_path)


def test_the_first_steps(program, tmp_path):
    made = program.run("init", tmp_path / "mine")
    assert f"serve --config {tmp_path}/mine/fibatchd.toml" in made
    program.run("check-config", "--config", tmp_path / "mine" / "fibatchd.toml")
    assert "[server]" in program.run("settings")


def polled(fetch, done):
    deadline = time.monotonic() + 60
    while not done(found := fetch()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)  # the API is polled, as its users do
    return found


def file_batch(client):
    """OpenAI's way: a file in, a file out."""
    lines = [{"method": "POST", "url": "/v1/chat/completions"} | chat(f"f-{n}", f"file {n}") for n in range(3)]
    text = "\n".join(map(json.dumps, lines)).encode()
    uploaded = client.files.create(file=("in.jsonl", text), purpose="batch")
    made = client.batches.create(input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h")
    ended = polled(lambda: client.batches.retrieve(made.id), lambda batch: batch.status in ("completed", "failed"))
    return sorted(
        json.loads(line)["custom_id"] for line in client.files.content(ended.output_file_id).text.splitlines()
    )


def message_batch(client):
    """Anthropic's."""
    params = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "message"}]}
    made = client.messages.batches.create(requests=[{"custom_id": f"m-{n}", "params": params} for n in range(3)])
    polled(lambda: client.messages.batches.retrieve(made.id), lambda batch: batch.processing_status == "ended")
    return {line.custom_id: line.result.type for line in client.messages.batches.results(made.id)}


def inline_batch(client):
    requests = [chat(f"i-{n}", f"inline {n}") for n in range(3)]
    made = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
    assert finished(client, made["id"])["status"] == "completed"
    return {found["custom_id"]: found["response"]["status_code"] for found in results(client, made["id"])}


def test_three_ways_in(serving):
    daemon = serving()
    key = daemon.new_key()
    assert file_batch(openai.OpenAI(base_url=f"{daemon.base}/v1", api_key=key)) == ["f-0", "f-1", "f-2"]
    assert message_batch(anthropic.Anthropic(base_url=daemon.base, api_key=key)) == dict.fromkeys(
        ("m-0", "m-1", "m-2"), "succeeded"
    )
    with daemon.client(key) as client:
        assert inline_batch(client) == dict.fromkeys(("i-0", "i-1", "i-2"), 200)


def test_the_console(serving):
    """The page is shipped with all of its files, and lets a key in."""
    daemon = serving()
    page = httpx2.get(f"{daemon.base}/console").raise_for_status().text
    named = re.findall(r'(?:href|src)="([^"]+)"', page)
    files = {
        path.relative_to(CONSOLE).as_posix() for path in CONSOLE.rglob("*.*") if path.suffix in (".js", ".css", ".svg")
    }
    assert {name.split("/", 2)[2] for name in named} == files
    for name in named:
        assert httpx2.get(f"{daemon.base}/{name}").raise_for_status().content, name
    key = {"api_key": daemon.new_key()}
    answer = httpx2.post(f"{daemon.base}/console/session", json=key, headers={"X-Fibatchd-Console": "1"})
    assert answer.raise_for_status().json()["signed_in"]


def test_postgresql(serving, empty_postgres):
    daemon = serving(storage=f'url = "{empty_postgres}"')
    with daemon.client(daemon.new_key()) as client:
        assert inline_batch(client) == dict.fromkeys(("i-0", "i-1", "i-2"), 200)


SURROUNDINGS = '''
"""Tells where its interpreter's modules came from, and whether a module of the standard library is not there."""

import importlib, sys, json
import click
from fibatchd.plugin_api import hookimpl

@click.command("surroundings")
@click.argument("names", nargs=-1)
def surroundings(names):
    """Tell."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    places = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    click.echo(json.dumps({"missing": missing, "places": sorted(places), "path": sys.path}))

@hookimpl
def fibatchd_commands():
    return [surroundings]
'''
# What a server has no use for, or only Windows has.
NOT_EXPECTED = {
    "_crypt", "_curses", "_curses_panel", "_dbm", "_gdbm", "_msi", "_overlapped", "_scproxy", "_tkinter", "_winapi",
    "antigravity", "crypt", "curses", "distutils", "ensurepip", "idlelib", "lib2to3", "msilib", "msvcrt", "nis", "nt",
    "ntpath", "pydoc_data", "readline", "spwd", "this", "tkinter", "turtle", "turtledemo", "venv", "winreg", "winsound",
}  # fmt: skip


def test_a_third_party_plugin(program, serving, tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    shutil.copy(EXAMPLE, folder)
    (folder / "surroundings.py").write_text(SURROUNDINGS)
    daemon = serving(server=f'plugin_dir = "{folder}"', extensions="rerank = true", endpoints=', "/v1/rerank"')
    with daemon.client(daemon.new_key()) as client:
        body = {"model": "m", "query": "q", "documents": ["a", "bb"]}
        requests = [{"custom_id": "r", "url": "/v1/rerank", "body": body}]
        batch = client.post("/v1/batches", json={"requests": requests}).raise_for_status().json()
        assert finished(client, batch["id"])["status"] == "completed"
        (found,) = results(client, batch["id"])
        assert [result["index"] for result in found["response"]["body"]["results"]] == [1, 0]
    assert daemon.run("rerank-accounts") == "1"

    names = sorted(sys.stdlib_module_names - NOT_EXPECTED)
    found = json.loads(daemon.run("surroundings", *names, "xml.etree.ElementTree", "concurrent.futures.process"))
    assert found["missing"] == []
    if program.path.parent.name == "dist":
        of_this_python = [sysconfig.get_path("stdlib"), sys.base_prefix, sys.prefix, str(EXAMPLE.parents[2])]
        assert [place for place in found["places"] + found["path"] if place.startswith(tuple(of_this_python))] == []


def test_version(program):
    first, commit, *others = program.run("version", "--verbose").splitlines()
    assert first == "fibatchd 0.1.0"
    assert len(commit.removeprefix("commit ").removesuffix("-dirty")) == 40
    assert "not stated" not in "".join(others)
    assert any(line.startswith("trio ") and "MIT" in line for line in others)
    brought = [line.split()[0] for line in others if ".so" in line]
    assert bool(brought) == (program.path.parent.name == "dist"), "only the binary brings shared libraries"


def test_the_binary_carries_licence_texts(binary, unpacked):
    binary.run("version")
    (folder,) = unpacked.glob("fibatchd-*")
    assert "PYTHON SOFTWARE FOUNDATION" in (folder / "lib" / "licences" / "python" / "LICENSE.txt").read_text()
    without = [path.name for path in (folder / "lib").glob("*.dist-info") if not has_licence_text(path)]
    assert [name.partition("-")[0] for name in without] in ([], ["jsonschema_rs"])  # whose wheel has none


def has_licence_text(folder):
    return any(re.match(r"(?i)licen[cs]e|copying", path.name) for path in folder.rglob("*") if path.is_file())
