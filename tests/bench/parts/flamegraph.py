"""Draws where a daemon's time goes while it dispatches tiny requests: a flame graph, by py-spy.

    python tests/bench/parts/flamegraph.py OUT.svg [--store sqlite|postgresql] [--requests 30000]

Only threads that hold the interpreter's lock are sampled, so that waiting is not drawn. A box is as wide as its function's
share; below it stands who called it. What every stack has in common at its foot is cut off, and so is what is too narrow
to read. The graphs in docs/flamegraphs/ are made by this.
"""

import argparse
import html
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from frame.stand import scratch, stand, tiny  # noqa: E402  # found by the path above
from frame.upstreams import Nginx  # noqa: E402

AT_ONCE = 64
RATE = 400
LEAST = 0.003
WIDTH, HEIGHT = 1200, 15
_LINE = re.compile(r":\d+\)")
FEET = ("unrolled_run (trio/_core/_run.py)", "run (trio/_core/_run.py)", "Thread.run (threading.py)")
"""Where a stack begins: the loop's step, the loop itself, a thread."""


@dataclass
class Node:
    """A function, called by another."""

    samples: int = 0
    callees: dict[str, "Node"] = field(default_factory=dict)

    def add(self, stack: list[str], samples: int) -> None:
        self.samples += samples
        if stack:
            self.callees.setdefault(stack[0], Node()).add(stack[1:], samples)


def recorded(store: str, requests: int) -> str:
    """Return py-spy's folded stacks of a daemon that dispatches so many requests."""
    with (
        scratch() as folder,
        Nginx.running(folder) as nginx,
        stand(nginx.url, concurrency=AT_ONCE, store=store) as daemon,
        tempfile.NamedTemporaryFile() as out,
    ):
        daemon.run_file(daemon.upload(tiny(500)))
        batch = daemon.create(daemon.upload(tiny(requests)))
        daemon.wait_until(batch, "in_progress")
        command = ["py-spy", "record", "--gil", "--threads", "--function", "--format", "raw"]
        place = ["--pid", str(daemon.process.pid), "--rate", str(RATE), "--duration", "600", "--output", out.name]
        spy = subprocess.Popen([Path(sys.executable).with_name(command[0]), *command[1:], *place])
        daemon.wait_for(batch)
        spy.send_signal(2)
        spy.wait()
        return Path(out.name).read_text()


def tree_of(folded: str) -> Node:
    """Add up the stacks, a root for each thread's kind."""
    root = Node()
    for line in folded.splitlines():
        stack, _, samples = line.rpartition(" ")
        _, *frames = _LINE.sub(")", stack).split(";")
        foot = next((frames.index(frame) for frame in FEET if frame in frames), None)
        if foot is not None:
            root.add(frames[foot:], int(samples))
    return root


def boxes(node: Node, whole: int, left: float = 0.0, level: int = 0) -> Iterator[tuple[str, float, float, int]]:
    """Give (name, left, share, level) of everything wide enough to be drawn."""
    for name, callee in sorted(node.callees.items()):
        share = callee.samples / whole
        if share >= LEAST:
            yield name, left, share, level
            yield from boxes(callee, whole, left, level + 1)
        left += share


def drawn(root: Node, title: str) -> str:
    """Return the graph as SVG."""
    found = list(boxes(root, root.samples))
    height = (max(level for *_, level in found) + 3) * HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10">',
        f'<rect width="100%" height="100%" fill="#fff"/><text x="4" y="11">{html.escape(title)}</text>',
    ]
    for name, left, share, level in found:
        x, y, width = left * WIDTH, height - (level + 1) * HEIGHT, share * WIDTH
        shown = html.escape(name[: max(0, int(width / 6.1))])
        lines.append(
            f'<g><title>{html.escape(name)}: {share:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{HEIGHT - 1}" fill="{colour(name)}"/><text x="{x + 1:.1f}" y="{y + 10}">{shown}</text></g>'
        )
    return "\n".join([*lines, "</svg>\n"])


def colour(name: str) -> str:
    """Ours, the event loop's, the drivers' and parsers', the rest."""
    for part, found in (
        ("(fibatchd/", "#f4b183"),
        ("(trio", "#a9d18e"),
        ("(asyncpg", "#9dc3e6"),
        ("(asyncio", "#9dc3e6"),
    ):
        if part in name:
            return found
    return "#d9d9d9"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--requests", type=int, default=30_000)
    options = parser.parse_args()
    root = tree_of(recorded(options.store, options.requests))
    title = f"Dispatch of {options.requests} tiny requests, {options.store}: {root.samples} samples; ours orange, trio green"
    options.out.write_text(drawn(root, title))


if __name__ == "__main__":
    main()
