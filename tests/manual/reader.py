"""Somebody who does what a page says, in a folder of their own: a terminal that is kept, Python, and the ids that were shown.

What a reader does by hand is done for them: where a page says `batch_…`, the last id of this kind that was shown is put in;
before each step they wait until their batches have ended; and the port of the manual is that of the daemon. What the
repository offers by make or as a test is not done, only looked for.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
from blocks import ROOT, Block, pattern, steps
from daemons import until

_SHOWN = re.compile(r"hyi-[\w-]{43}|(?:batch_|msgbatch_|file-|evt_|key_|acct_)[0-9a-f]{32}|whsec_[\w+/]+=*")
_KIND = re.compile(r"hyi-|batch_|msgbatch_|file-|evt_|key_|acct_|whsec_")
_OURS = re.compile(r"(?:\w+=\S+ )*(?:make ([\w-]+)|\.venv/bin/python -m pytest (.*))")
_OPEN = "validating,in_progress,finalizing,cancelling"
_END = "\x01end"
_CURL = 'curl() { command curl -sS --fail-with-body "$@"; }'


class Reader:
    """Give it the blocks of a page, in order. `known` are what the page's addresses are here."""

    def __init__(self, folder: Path, base: str, key: str, known: dict[str, str], env: dict[str, str]) -> None:
        self.folder = folder
        self.base = base
        self.seen = {"hyi-": key}
        self.known = known
        self.names: dict[str, Any] = {"__name__": "example"}
        self.server: subprocess.Popen[bytes] | None = None
        path = os.pathsep.join([str(Path(sys.executable).parent), *env.pop("PATH", "").split(), os.environ["PATH"]])
        self._env = os.environ | {"PATH": path, "FIBATCHD_API_KEY": key, "FIBATCHD_BASE_URL": base} | env
        self._shell = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=folder, env=self._env, text=True,
        )  # fmt: skip
        self._type(_CURL)

    def close(self) -> None:
        for name in ("client", "stream"):
            if name in self.names:
                self.names[name].close()
        for process in filter(None, (self._shell, self.server)):
            process.kill()
            process.communicate()

    def localised(self, text: str) -> str:
        """The text with addresses and ids as they are here."""
        for here, there in self.known.items():
            text = text.replace(here, there)
        return re.sub(rf"({_KIND.pattern})…", lambda match: self.seen[match[1]], text)

    def run(self, block: Block) -> None:
        """Do what a block says. Raises AssertionError where it fails, or shows something else."""
        if block.language == "python":
            self._wait_for_batches()
            exec(compile(self.localised(block.text), block.place, "exec"), self.names)
        elif block.language == "console":
            for command, shown in steps(block.text):
                self._step(command, shown)
        else:
            self._step(block.text, [])

    def _step(self, command: str, shown: list[str]) -> None:
        self._wait_for_batches()
        if command.startswith("fibatchd serve"):
            self._serve(command)
            return
        if ours := _OURS.match(command):
            check_ours(*ours.groups())
            return
        status, output = self._type(self.localised(command))
        assert status == 0, f"{command}\n{output}"
        for found in _SHOWN.findall(output):
            self.seen[_KIND.match(found)[0]] = found  # type: ignore[index]
        if shown:
            assert re.fullmatch(pattern("\n".join(shown)), output.strip(), re.DOTALL), f"{command}\n{output}"

    def _type(self, command: str) -> tuple[int, str]:
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{command}\nprintf '{_END} %s\\n' $?\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            before, ended, status = line.partition(_END)
            lines.append(before)
            if ended:
                return int(status), "".join(lines)
        raise AssertionError(f"the shell ended: {command}\n{''.join(lines)}")

    def _serve(self, command: str) -> None:
        config = self.folder / command.rpartition("--config ")[2]
        config.write_text(self.localised(config.read_text()) + '[metrics]\nlisten = ""\n')
        with (self.folder / "serve.log").open("wb") as log:
            self.server = subprocess.Popen(command.split(), cwd=self.folder, env=self._env, stdout=log, stderr=log)
        until(self._is_ready)

    def _is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.base}/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def _wait_for_batches(self) -> None:
        if not self._is_ready():
            return  # the page has not started its server yet
        headers = {"Authorization": f"Bearer {self.seen['hyi-']}"}
        url = f"{self.base}/v1/account/batches?status={_OPEN}"
        until(lambda: httpx2.get(url, headers=headers).json().get("data") == [])


def check_ours(target: str | None, tests: str | None) -> None:
    """Look whether there is what a command of this repository names: it would take minutes, or be this very run."""
    if target:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif tests:
        for path in re.findall(r"tests/\S+", tests):
            assert (ROOT / path).exists(), path


def hurry(seconds: float) -> None:
    """Take the place of `time.sleep` in examples, which wait for a batch between two looks."""
    _sleep(min(seconds, 0.05))


_sleep = time.sleep
