"""Configuration files that come with fibatchd, kept as package data: the commented example and the demo's own."""
