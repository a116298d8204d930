"""`/v1/responses`, in batches and directly."""
