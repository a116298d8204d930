"""JSON Schemas of the configuration, of request bodies and of webhook events, installed as `fibatchd_schemas`."""
