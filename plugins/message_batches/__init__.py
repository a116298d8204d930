"""Anthropic Message Batches and `/v1/messages`."""
