"""What is shipped, as its users start it: the one-file binary and the installed wheel, with a bare environment and no PATH."""

import fcntl
from pathlib import Path

import pytest
from daemons import ModelServerProcess, closing_all
from shipped import Program

ROOT = Path(__file__).parents[2]
PROGRAMS = {"binary": ROOT / "dist" / "fibatchd", "wheel": ROOT / ".venv-release" / "bin" / "fibatchd"}


def pytest_collection_modifyitems(items):
    """All of it is run by `make test-binary` alone, which builds first."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.binary)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """The folder into which the binary unpacks itself, for all tests that are not about that."""
    return tmp_path_factory.mktemp("cache")


def _program(name, unpacked):
    path = PROGRAMS[name]
    if not path.exists():
        pytest.skip(f"{path} is not there: make binary")
    return Program(path, {"CACHE_DIRECTORY": str(unpacked)} if name == "binary" else {})


@pytest.fixture(params=PROGRAMS)
def program(request, unpacked):
    """Each of the two."""
    return _program(request.param, unpacked)


@pytest.fixture
def binary(unpacked):
    """The one file."""
    return _program("binary", unpacked)


@pytest.fixture
def processes():
    """A list of child processes; they are closed at the end."""
    with closing_all() as found:
        yield found


@pytest.fixture
def upstream(processes):
    """A model server."""
    server = ModelServerProcess()
    processes.append(server)
    return server


@pytest.fixture
def demo_port(tmp_path_factory):
    """The demo's port is fixed: tests that start one wait for each other, in whatever process they are."""
    with open(tmp_path_factory.getbasetemp().parent / "demo.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
