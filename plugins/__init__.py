"""The bundled plugins, installed as `fibatchd_plugins`; each imports `fibatchd.plugin_api` only, and no other plugin."""
