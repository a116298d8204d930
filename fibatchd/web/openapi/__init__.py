"""The HTTP API as an OpenAPI 3.1 document: the core's routes from the YAML files here, each plugin's from its own fragment.

joining      fragments, the core's and the plugins', become one
completing   what every operation has in common is put in
document     reads them all; what `/openapi.json` and `fibatchd openapi` give
routes       `/openapi.json`
coverage     what an app serves, to be compared with what is described
"""

from .coverage import served
from .document import document, read_fragment
from .joining import Operation, operations
from .routes import blueprint

__all__ = ["Operation", "blueprint", "document", "operations", "read_fragment", "served"]
