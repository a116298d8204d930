"""What an app serves, in the document's terms, so that the two can be compared."""

import re
from collections.abc import Iterable

from werkzeug.routing import Map, Rule

from .joining import Operation

# HEAD is served wherever GET is.
_UNSAID = frozenset({"HEAD", "OPTIONS"})
_VARIABLE = re.compile(r"<(?:[^:<>]+:)?([^<>]+)>")


def served(rules: Map | Iterable[Rule]) -> set[Operation]:
    """Return the operations of an app's `url_map`."""
    found = rules.iter_rules() if isinstance(rules, Map) else rules
    return {
        Operation(method, _VARIABLE.sub(r"{\1}", rule.rule))
        for rule in found
        for method in (rule.methods or set()) - _UNSAID
    }
