-- Files, their bytes, and what batches have to do with them.

-- state: staging (being written), ready, deleted (its bytes are removed in the background).
CREATE TABLE files (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    batch_id TEXT,
    purpose TEXT NOT NULL,
    filename TEXT NOT NULL,
    state TEXT NOT NULL,
    bytes BIGINT NOT NULL DEFAULT 0,
    sha256 TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    written_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION
);
CREATE INDEX files_account ON files (account_id, id) WHERE state = 'ready';
CREATE INDEX files_batch ON files (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX files_expiry ON files (expires_at) WHERE state = 'ready';
CREATE INDEX files_staging ON files (written_at) WHERE state = 'staging';
CREATE INDEX files_deleted ON files (id) WHERE state = 'deleted';

-- A file's bytes in pieces, each under the position of its first byte.
CREATE TABLE file_chunks (
    file_id TEXT NOT NULL,
    start BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (file_id, start)
);

-- When uploads came, for the hourly limit: deleting a file does not give its place back.
CREATE TABLE file_uploads (
    file_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    uploaded_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX file_uploads_account ON file_uploads (account_id, uploaded_at);
CREATE INDEX file_uploads_age ON file_uploads (uploaded_at);

-- Batches created from a file. While `reading`, the bytes of their input are kept, whatever becomes of the file.
CREATE TABLE file_batches (
    batch_id TEXT PRIMARY KEY,
    file_id TEXT NOT NULL,
    reading INTEGER NOT NULL DEFAULT 1,
    output_expires_after INTEGER
);
CREATE INDEX file_batches_reading ON file_batches (file_id) WHERE reading = 1;
