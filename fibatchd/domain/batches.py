"""A batch: many requests of one account, submitted in one call."""

from dataclasses import dataclass

from fibatchd.domain import states


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the store holds it; field names are the columns of table `batches`. Times are Unix seconds.

    api           whose routes show it: "batches" for the OpenAI-shaped API, else the name a plugin chose
    source        what its requests came in as: "inline", or the name a plugin chose
    prepared      whether all its requests are stored, and may run
    finalizer     the kind of job that ends it once its requests are over (it writes files); None where nothing is left
    closed_as     what its unstarted requests ended as: "cancelled", "expired" or "failed"; None while open
    first_number  the number of its first request; the others follow without a gap, in submission order
    options       JSON text that its API's plugin keeps with it
    label         what a person calls its input, such as a file's name
    rerun_of      the batch some requests of which it runs again
    """

    id: str
    api: str
    source: str
    account_id: str
    key_id: str
    endpoint: str
    status: str
    prepared: bool
    finalizer: str | None
    closed_as: str | None
    created_at: float
    expires_at: float
    in_progress_at: float | None
    finalizing_at: float | None
    completed_at: float | None
    failed_at: float | None
    expired_at: float | None
    cancelling_at: float | None
    cancelled_at: float | None
    ended_at: float | None
    delete_at: float | None
    deleted_at: float | None
    total: int
    queued: int
    running: int
    completed: int
    failed: int
    cancelled: int
    expired: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: int
    cost_unknown: int
    first_number: int | None
    model: str | None
    metadata: str | None
    errors: str | None
    error_code: str | None
    error_message: str | None
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    options: str | None
    label: str | None
    rerun_of: str | None

    @property
    def is_final(self) -> bool:
        """Whether it has ended: completed, failed, expired or cancelled."""
        return self.status in states.FINAL
