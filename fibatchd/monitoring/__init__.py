"""Watching a running daemon: its metrics page, its heartbeat, and what the service manager is told.

figures.py    the core's metrics: names, meanings, where each number comes from
page.py       the listener that Prometheus asks
heartbeat.py  how late the event loop is       manager.py    systemd's notify protocol and watchdog
"""
