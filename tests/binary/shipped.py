"""Starts a shipped program with nothing in its environment but what a test gives it."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from daemons import DaemonProcess

ENV = "/usr/bin/env"  # it execs: the process is the program's own


@dataclass(frozen=True)
class Program:
    """An executable, and the environment that it is always given."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)

    def command(self, *words, **env):
        given = {"PATH": ""} | self.env | env
        return [ENV, "-i", *(f"{name}={value}" for name, value in given.items()), str(self.path), *map(str, words)]

    def run(self, *words, cwd=None, **env):
        """Run a command to its end; what it printed."""
        done = subprocess.run(
            self.command(*words, **env), capture_output=True, text=True, timeout=60, cwd=cwd, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


class ShippedDaemon(DaemonProcess):
    """`fibatchd serve` of a shipped program. `prefix` is a command before it, which ends in becoming it."""

    def __init__(self, program, folder, config, *, prefix=(), **more):
        self.program = program
        self.prefix = prefix
        super().__init__(folder, config, **more)

    def command(self, *words):
        return [*self.prefix, *self.program.command(*words, "--config", self.config, **self.env)]

    def new_key(self, tier="internal"):
        """By the program's own command line, not by the repository's code in this process."""
        self.keys.append(self.run("key", "create", self.run("account", "create", "test", "--tier", tier)))
        return self.keys[-1]
