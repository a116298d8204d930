"""The console: a page to look at batches."""
