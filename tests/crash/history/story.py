"""A history, indexed: what the invariants in checker.py look at."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from history.record import Entry

KNOWN_COST = frozenset({400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503})
"""HTTP errors of the upstream whose attempt cost nothing; after others, nobody can know."""

MENDED_S = 2.0
"""It takes a moment until a daemon has noticed that all is well again: it waits between its tries."""


@dataclass
class Attempt:
    """One that the upstream saw."""

    n: int
    who: str
    model: str
    at: float
    ended: float = float("inf")
    outcome: str = "left"
    status: int | None = None
    answer: str | None = None
    usage: tuple[int, int] | None = None

    @property
    def costs_nothing(self) -> bool:
        return self.outcome == "refused" and self.status in KNOWN_COST


@dataclass
class Story:
    """`made` is by tag, the acknowledged creates; `finals` by batch; `tag_of` and `owner` by batch."""

    begun: Entry
    calls: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    attempts: dict[int, Attempt] = field(default_factory=dict)
    by_who: dict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    finals: dict[str, Entry] = field(default_factory=dict)
    events: list[Entry] = field(default_factory=list)
    faults: list[Entry] = field(default_factory=list)
    rows: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))

    @property
    def limits(self) -> dict[str, Any]:
        found: dict[str, Any] = self.begun["limits"]
        return found

    def created(self) -> Iterator[Entry]:
        """Create calls that were answered with a batch."""
        return (call for call in self.calls["create"] if call["status"] == 200)

    def tags(self) -> dict[str, Entry]:
        """Every tag that was asked for, whatever came of it: the first of its create calls."""
        return {call["tag"]: call for call in reversed(self.calls["create"])}

    def deletions(self, *, acknowledged: bool) -> set[str]:
        """Batches that were deleted, or (not `acknowledged`) that may have been, too, since no answer came."""
        good = (200,) if acknowledged else (200, None, 500, 503, 404)
        return {call["batch"] for call in self.calls["delete"] if call["status"] in good}

    def names(self, batch: str) -> list[str]:
        return [result["who"] for result in self.finals[batch]["results"]]

    def tag(self, batch: str) -> str:
        """The tag of a batch that was read in the end, from the names of its requests."""
        return str(self.names(batch)[0]).partition("-")[0]

    def clock_was_stepped(self) -> bool:
        return any(fault["name"] == "clock" for fault in self.faults)

    def fault_time(self, since: float, until: float) -> float:
        """How long things were wrong between two moments, or had just been: what is begun then may be late by so much."""
        overlaps = (min(until, fault["ended"] + MENDED_S) - max(since, fault["at"]) for fault in self.faults)
        return sum(overlap for overlap in overlaps if overlap > 0)


def index(entries: list[Entry]) -> Story:
    story = Story(next(entry for entry in entries if entry["kind"] == "begun"))
    for entry in entries:
        match entry["kind"]:
            case "call":
                story.calls[entry["op"]].append(entry)
            case "attempt":
                attempt = Attempt(entry["n"], entry["who"], entry["model"], entry["at"])
                story.attempts[attempt.n] = attempt
                story.by_who[attempt.who].append(attempt)
            case "attempt_ended":
                attempt = story.attempts[entry["n"]]
                attempt.ended, attempt.outcome = entry["at"], entry["outcome"]
                attempt.status, attempt.answer = entry.get("status"), entry.get("answer")
                attempt.usage = tuple(entry["usage"]) if "usage" in entry else None
            case "final":
                story.finals[entry["batch"]] = entry
            case "event":
                story.events.append(entry)
            case "fault":
                story.faults.append(entry)
            case "row":
                story.rows[entry["table"]].append(entry)
    return story
