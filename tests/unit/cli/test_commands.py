"""The command line as a whole: every command is there and has help, plugins add theirs, `init` and `version`."""

import json
import platform

import apsw
import click
import pytest
from click.testing import CliRunner

from fibatchd.cli import COMMANDS, expected, main
from fibatchd.domain.accounts import looks_like_key
from fibatchd.errors import ConfigError, FibatchdError, StoreInUse

PLUGIN = """
import apsw
import click
from fibatchd.plugin_api import accounts, hookimpl

@click.command()
@click.pass_obj
def greet(surroundings):
    async def work(opened):
        return len(await opened.store.read(accounts.list_accounts))

    click.echo(f"hello to {surroundings.run(work)} accounts")

@click.command("serve")
def mine():
    click.echo("not the daemon")

@hookimpl
def fibatchd_commands():
    return [greet, mine]
"""


def call(*words):
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


@pytest.fixture
def with_plugin(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "greeting.py").write_text(PLUGIN)
    config = tmp_path / "fibatchd.toml"
    data_dir, plugins = json.dumps(str(tmp_path)), json.dumps(str(tmp_path / "plugins"))
    config.write_text(f"[server]\ndata_dir = {data_dir}\nplugin_dir = {plugins}\n")
    return str(config)


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name):
    answer = call(name, "--help")
    assert answer.exit_code == 0
    assert answer.stdout.startswith(f"Usage: main {name} ")


def test_all_commands_are_listed():
    listing = call("--help").stdout
    assert [line.split()[0] for line in listing.partition("Commands:\n")[2].splitlines()] == list(COMMANDS)
    assert "..." not in listing.partition("Commands:\n")[2]  # a summary that does not fit tells nothing


@pytest.mark.parametrize("form", [["--config", "{}", "greet"], ["greet", "--config", "{}"], ["greet", "--config={}"]])
def test_a_command_of_a_plugin(with_plugin, form):
    call("account", "create", "ada", "--tier", "free", "--config", with_plugin)
    answer = call(*(word.format(with_plugin) for word in form))
    assert (answer.stdout, answer.exit_code) == ("hello to 1 accounts\n", 0)


def test_a_plugin_takes_no_name_of_the_core(with_plugin):
    listing = call("--config", with_plugin, "--help").stdout
    assert "  greet" in listing
    assert listing.count("  serve ") == 1
    assert "not the daemon" not in call("--config", with_plugin, "serve", "--help").stdout


def test_a_broken_plugin_does_not_take_the_help_away(with_plugin, tmp_path):
    (tmp_path / "plugins" / "greeting.py").write_text("import nothing_of_this_name")
    answer = call("--config", with_plugin, "--help")
    assert answer.exit_code == 0
    assert "  serve " in answer.stdout
    assert "cannot be imported" in answer.stderr
    assert call("--config", with_plugin, "greet").exit_code == 1


def test_version():
    assert call("--version").stdout == "fibatchd, version 0.1.0\n"
    assert call("version").stdout == "fibatchd 0.1.0\n"


def test_version_tells_libraries_and_licences():
    lines = call("version", "--verbose").stdout.splitlines()
    head, libraries = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert [line.split()[0] for line in head] == ["fibatchd", "commit", "Python", platform.system()]
    assert f"SQLite {apsw.sqlite_lib_version()}" in head[2]
    found = {line.split()[0].lower(): line.split(maxsplit=2)[2] for line in libraries}
    assert found["fibatchd"] == "Apache-2.0"
    assert {"trio", "hypercorn", "quart-trio", "apsw", "asyncpg", "h11"} <= set(found)  # h11 is a library's own need
    assert "pytest" not in found
    assert "not stated" not in found.values()


def test_init(tmp_path):
    folder = tmp_path / "new"
    answer = call("init", str(folder))
    config = folder / "fibatchd.toml"
    assert looks_like_key(answer.stdout.splitlines()[2].strip())
    assert f"fibatchd serve --config {config}" in answer.stdout
    assert config.stat().st_mode & 0o777 == 0o600
    assert call("check-config", "--config", str(config)).exit_code == 0
    (account,) = json.loads(call("account", "list", "--json", "--config", str(config)).stdout)
    assert (account["name"], account["tier"]) == ("admin", "admin")
    assert (folder / "data").is_dir()


def test_init_overwrites_nothing(tmp_path):
    (tmp_path / "fibatchd.toml").write_text("# mine\n")
    answer = call("init", str(tmp_path))
    assert (answer.stdout, answer.exit_code) == ("", 1)
    assert (tmp_path / "fibatchd.toml").read_text() == "# mine\n"


def test_init_that_fails_can_be_tried_again(tmp_path):
    (tmp_path / "data").write_text("a file where the folder is to be")
    answer = call("init", str(tmp_path))
    assert answer.exit_code == 1
    assert not (tmp_path / "fibatchd.toml").exists()
    (tmp_path / "data").unlink()
    assert call("init", str(tmp_path)).exit_code == 0


@pytest.mark.parametrize("command", [["init"], ["demo", "--data-dir"]])
def test_a_folder_whose_name_is_not_utf_8(tmp_path, command):
    folder = tmp_path / "a\udcff"
    answer = call(*command, str(folder))
    assert answer.exit_code == 1
    assert "cannot be written" in answer.stderr
    assert not (folder / "fibatchd.toml").exists()


def test_migrate(tmp_path):
    config = tmp_path / "fibatchd.toml"
    config.write_text(f"[server]\ndata_dir = {json.dumps(str(tmp_path))}\n")
    owners = {
        line.split()[0]: int(line.split()[1]) for line in call("migrate", "--config", str(config)).stdout.splitlines()
    }
    assert owners["core"] >= 1


def test_errors_out_of_nurseries():
    error = StoreInUse("held")
    assert expected(error) is error
    assert expected(ExceptionGroup("", [ExceptionGroup("", [error])])) is error
    assert expected(ExceptionGroup("", [error, ValueError()])) is None
    assert expected(ValueError()) is None


def test_a_fault_of_ours_is_not_hidden(monkeypatch):
    @click.command()
    def broken():
        raise RuntimeError("a bug")

    monkeypatch.setattr(main, "get_command", lambda ctx, name: broken)
    with pytest.raises(RuntimeError):
        call("broken")


@pytest.mark.parametrize(
    ("error", "said"), [(FibatchdError("no"), "fibatchd: no\n"), (ConfigError(["a: x", "b: y"]), "a: x\nb: y\n")]
)
def test_how_errors_are_told(monkeypatch, error, said):
    @click.command()
    def failing():
        raise ExceptionGroup("", [error])

    monkeypatch.setattr(main, "get_command", lambda ctx, name: failing)
    answer = call("failing")
    assert (answer.stdout, answer.stderr, answer.exit_code) == ("", said, 1)
