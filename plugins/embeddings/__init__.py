"""`/v1/embeddings`, in batches and directly."""
