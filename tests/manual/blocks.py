"""The examples of the manual: fenced blocks of its pages, with what stands about them in a comment before.

<!-- not run: REASON -->            cannot be run by a test; its syntax is checked all the same
<!-- answers GET /v1/account -->    JSON that the server answers to this call, in this form; `, an item` behind the path: one of its list
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "plugins/README.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
_FENCE = re.compile(
    r"^(?:<!-- (?P<about>[^\n]*) -->\n)?(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    about: str

    @property
    def not_run(self) -> str:
        """Why it cannot be run; empty where it can."""
        return self.about.removeprefix("not run: ") if self.about.startswith("not run: ") else ""

    @property
    def answers(self) -> str:
        """The call whose answer it shows; empty where it is none."""
        return self.about.removeprefix("answers GET ") if self.about.startswith("answers GET ") else ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        inner = "".join(line[len(match["indent"]) :] for line in match["text"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"].strip(), inner, match["about"] or ""))
    return found


def steps(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the output that is shown behind it. Prompts are `$`, and `#` for root."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(("$ ", "# ")):
            found.append((line[2:], []))
        elif found and not found[-1][1] and is_open(found[-1][0]):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found


def is_open(command: str) -> bool:
    """Whether a command goes on in the next line: an open quote, a backslash at the end, or a here-document."""
    if here := re.search(r"<<'(\w+)'", command):
        return f"\n{here[1]}" not in command
    return command.endswith("\\") or command.count("'") % 2 == 1


def pattern(shown: str) -> str:
    """A regular expression for output in which `…` stands for anything."""
    return ".*".join(re.escape(part) for part in shown.strip().split("…"))
