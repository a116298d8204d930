"""Example and demo configuration, alert rules and a dashboard, installed as `fibatchd_config`."""
