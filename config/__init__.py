"""Example and demo configuration, installed as `fibatchd_config`."""
