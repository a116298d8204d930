"""Text made fit for a terminal, which obeys some of what it is shown: escape sequences set titles and colours, and more;
and what may stand in a header line."""

import re

_VISIBLE = re.compile(r"[!-~]+")


def is_visible(text: str) -> bool:
    """Whether a text is visible ASCII characters, one or more, and nothing else: what a key in a header line may be, where
    anything else would break the request or smuggle one in."""
    return _VISIBLE.fullmatch(text) is not None


def printable(text: str, *, lines: bool = False) -> str:
    """Return a text with escapes such as `\\x1b` for what would not be seen: control characters, and those that hide or turn
    around what follows. With `lines`, line breaks stay."""
    if text.isprintable():
        return text
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
