"""JSON Schemas, as files: request bodies and the configuration. A package, so that an installed fibatchd finds them."""
