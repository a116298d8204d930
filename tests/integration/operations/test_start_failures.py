"""A daemon that cannot start: exit status 1, its reason in a line that names what to mend, and no traceback."""

import socket

import pytest
import trustme
from commands import fibatchd
from daemons import free_port

MODEL = '[[models]]\nid = "m"\nupstreams = [{ url = "echo:" }]\n'


def serve(folder, server="", rest=MODEL, *, port=None, data_dir=None):
    """Run `fibatchd serve`, which is to fail; return its lines on stderr."""
    config = folder / "fibatchd.toml"
    config.write_text(
        f'[server]\nlisten = ["127.0.0.1:{port or free_port()}"]\ndata_dir = "{data_dir or folder}"\n{server}\n'
        f'[metrics]\nlisten = ""\n[storage]\nmin_free_bytes = 0\n{rest}'
    )
    done = fibatchd("serve", "--config", config, cwd=folder)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def test_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        lines = serve(tmp_path, port=port)
    assert lines[-1] == f"server.listen[0]: '127.0.0.1:{port}' is in use by another process"


def test_an_address_of_another_machine(tmp_path):
    config = tmp_path / "fibatchd.toml"
    config.write_text(f'[server]\nlisten = ["192.0.2.1:1", "unix:/no/such/folder/x"]\ndata_dir = "{tmp_path}"\n')
    done = fibatchd("serve", "--config", config)
    assert done.returncode == 1
    assert "server.listen[0]: '192.0.2.1:1' is not an address of this machine" in done.stderr
    assert "server.listen[1]: 'unix:/no/such/folder/x' No such file or directory" in done.stderr, "all of them at once"


def test_a_data_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    (line,) = serve(tmp_path, data_dir=tmp_path / "file" / "data")
    assert line.startswith(f"fibatchd: {tmp_path}/file/data/fibatchd.db cannot be opened: ")
    assert "Not a directory" in line


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "fibatchd.db").write_bytes(b"not a database at all" * 100)
    (line,) = serve(tmp_path)
    assert line.startswith(f"fibatchd: {tmp_path}/fibatchd.db cannot be opened: ")
    assert "not a database" in line


def test_a_postgresql_that_is_not_there(tmp_path):
    config = tmp_path / "fibatchd.toml"
    port = free_port()
    config.write_text(f'[storage]\nurl = "postgresql://u:hidden@127.0.0.1:{port}/x"\n')
    done = fibatchd("serve", "--config", config)
    assert done.returncode == 1
    assert done.stderr.startswith("fibatchd: no connection to the database: ConnectionRefusedError: ")
    assert f"'127.0.0.1', {port}" in done.stderr
    assert "hidden" not in done.stderr


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        (
            '[[models]]\nid = "m"\nupstreams = [{ url = "http://x", api_key_file = "/none" }]',
            'models[0].upstreams[0].api_key_file: "/none" cannot be read: No such file or directory',
        ),
        (
            '[[models]]\nid = "m"\nupstreams = [{ url = "http://x", api_key_file = "/" }]',
            'models[0].upstreams[0].api_key_file: "/" cannot be read: Is a directory',
        ),
        (
            '[[models]]\nid = "m"\nupstreams = [{ url = "http://x", api_key_env = "UNSET_HERE" }]',
            'models[0].upstreams[0].api_key_env: "UNSET_HERE" is not set in the environment',
        ),
        (
            '[[models]]\nid = "m"\nendpoints = ["/v1/nothing"]\nupstreams = [{ url = "echo:" }]',
            "models[0].endpoints[0]: nothing serves '/v1/nothing'; known are ",
        ),
    ],
)
def test_a_model_that_cannot_be_served(tmp_path, rest, line):
    assert serve(tmp_path, rest=rest)[0].startswith(line)


@pytest.mark.parametrize(
    ("server", "line"),
    [
        ('tls_cert = "/none"\ntls_key = "/none"', 'server.tls_cert: "/none" cannot be read: No such file or directory'),
        (
            'tls_cert = "cert.pem"\ntls_key = "other.pem"',
            'server.tls_cert: "cert.pem" is not a PEM certificate chain, or tls_key is not its key',
        ),
        ('plugin_dir = "/none"', 'server.plugin_dir: "/none" is not a folder'),
        ('trusted_proxies = ["proxy"]', 'server.trusted_proxies[0]: "proxy" is not an IP address'),
        ("drain = 5", "server.drain: unknown setting; did you mean `drain_s`?"),
    ],
)
def test_a_server_that_cannot_be(tmp_path, server, line):
    issued = trustme.CA().issue_cert("localhost")
    (tmp_path / "cert.pem").write_bytes(issued.cert_chain_pems[0].bytes())
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "other.pem")
    assert serve(tmp_path, server)[0].startswith(line)


def test_a_configuration_that_is_not_there(tmp_path):
    done = fibatchd("serve", "--config", tmp_path / "none.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path}/none.toml cannot be read: No such file or directory\n"


def test_a_configuration_that_is_no_toml(tmp_path):
    (tmp_path / "fibatchd.toml").write_text("[server\n")
    done = fibatchd("serve", "--config", tmp_path / "fibatchd.toml")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_plugin_that_breaks(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text("import nothing_of_this_name")
    lines = serve(tmp_path, f'plugin_dir = "{tmp_path}/plugins"')
    assert lines[0].startswith(f"plugin {tmp_path}/plugins/mine.py: cannot be imported: ModuleNotFoundError")


def test_wrong_usage(tmp_path):
    assert fibatchd("serve", "--confg", tmp_path).returncode == 2
