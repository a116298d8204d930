"""Completion webhooks."""
