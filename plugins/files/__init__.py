"""File batches: `/v1/files`, and batches created from an uploaded JSONL file."""
