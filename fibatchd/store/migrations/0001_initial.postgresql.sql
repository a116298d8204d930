-- Accounts, keys, batches, their requests and results, and what daemons share.

CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    tier TEXT NOT NULL,
    status TEXT NOT NULL,
    quota BIGINT,
    quota_set INTEGER NOT NULL DEFAULT 0,
    created_at DOUBLE PRECISION NOT NULL
);

CREATE INDEX accounts_deleted ON accounts (id) WHERE status = 'deleted';

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    hash BYTEA NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    models TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION,
    revoked_at DOUBLE PRECISION
);
CREATE INDEX keys_account ON keys (account_id);

-- Its counters change with every group of claims and outcomes. No index holds them, so with room left on its page a new
-- version of a row costs no index entry, and the old one goes without a vacuum. So it is with `spending` below.
CREATE TABLE batches (
    id TEXT PRIMARY KEY,
    api TEXT NOT NULL,
    source TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT NOT NULL REFERENCES keys (id),
    endpoint TEXT NOT NULL,
    status TEXT NOT NULL,
    prepared INTEGER NOT NULL DEFAULT 0,
    finalizer TEXT,
    closed_as TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL,
    in_progress_at DOUBLE PRECISION,
    finalizing_at DOUBLE PRECISION,
    completed_at DOUBLE PRECISION,
    failed_at DOUBLE PRECISION,
    expired_at DOUBLE PRECISION,
    cancelling_at DOUBLE PRECISION,
    cancelled_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    delete_at DOUBLE PRECISION,
    deleted_at DOUBLE PRECISION,
    total INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    reasoning_tokens BIGINT NOT NULL DEFAULT 0,
    cost BIGINT NOT NULL DEFAULT 0,
    cost_unknown BIGINT NOT NULL DEFAULT 0,
    first_number BIGINT,
    reserved INTEGER NOT NULL DEFAULT 0,
    model TEXT,
    metadata TEXT,
    errors TEXT,
    error_code TEXT,
    error_message TEXT,
    input_file_id TEXT,
    output_file_id TEXT,
    error_file_id TEXT,
    options TEXT
) WITH (fillfactor = 70);
CREATE INDEX batches_account ON batches (account_id, api, id);
CREATE INDEX batches_unfinished ON batches (account_id) WHERE ended_at IS NULL AND deleted_at IS NULL;
CREATE INDEX batches_expiry ON batches (expires_at) WHERE closed_as IS NULL AND ended_at IS NULL;
CREATE INDEX batches_retention ON batches (delete_at) WHERE delete_at IS NOT NULL AND deleted_at IS NULL;

-- One row for each model of each batch: what a pool looks through to find work, never the requests themselves.
CREATE TABLE lanes (
    id BIGINT PRIMARY KEY,
    batch_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    model TEXT NOT NULL,
    queued INTEGER NOT NULL
);
CREATE INDEX lanes_batch ON lanes (batch_id);
CREATE INDEX lanes_work ON lanes (model) WHERE queued > 0;

-- What changes while a request runs; small, so that an update is cheap.
-- Each request leaves two dead versions behind, at the very place where the next claims look: they are cleared away
-- early, not when a fifth of a large table is dead.
CREATE TABLE requests (
    number BIGINT PRIMARY KEY,
    lane BIGINT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    lease BIGINT,
    started_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    request_id TEXT,
    error_code TEXT,
    error_message TEXT,
    error_status INTEGER
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX requests_queued ON requests (lane, due_at DESC, number) WHERE status = 'queued';
CREATE INDEX requests_leased ON requests (lease) WHERE lease IS NOT NULL;

-- What never changes: what the client sent, and what a success answered.
CREATE TABLE request_bodies (
    number BIGINT PRIMARY KEY,
    custom_id TEXT NOT NULL,
    body BYTEA NOT NULL
);

CREATE TABLE results (
    number BIGINT PRIMARY KEY,
    status_code INTEGER NOT NULL,
    body BYTEA NOT NULL
);

CREATE TABLE idempotency (
    account_id TEXT NOT NULL,
    key TEXT NOT NULL,
    route TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    batch_id TEXT NOT NULL,
    forget_at DOUBLE PRECISION,
    PRIMARY KEY (account_id, key)
);
CREATE INDEX idempotency_batch ON idempotency (batch_id);
CREATE INDEX idempotency_forget ON idempotency (forget_at) WHERE forget_at IS NOT NULL;

-- What was spent, by UTC day, model and way ('batch' or 'interactive'). Costs are pico-USD.
CREATE TABLE spending (
    account_id TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    way TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    cost_unknown BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, model, way)
) WITH (fillfactor = 70);

-- Daemons that may hold leases: a running request names its daemon's row, and that row has the deadline.
CREATE TABLE daemons (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    deadline DOUBLE PRECISION NOT NULL,
    models TEXT NOT NULL DEFAULT '[]',
    interactive TEXT NOT NULL DEFAULT '{}'
);

-- How many of a model's places a daemon holds; their sum never passes the model's concurrency.
CREATE TABLE places (
    model TEXT NOT NULL,
    daemon BIGINT NOT NULL,
    held INTEGER NOT NULL,
    wanted INTEGER NOT NULL,
    PRIMARY KEY (model, daemon)
);

-- Work to do in the background, once, by any daemon: see jobs.py.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    due_at DOUBLE PRECISION NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease BIGINT
);
CREATE INDEX jobs_due ON jobs (kind, due_at);
CREATE INDEX jobs_subject ON jobs (subject);
CREATE INDEX jobs_leased ON jobs (lease) WHERE lease IS NOT NULL;

-- Models that the operator drains by the API; those drained by configuration are not here.
CREATE TABLE drained_models (
    model TEXT PRIMARY KEY,
    since DOUBLE PRECISION NOT NULL
);

CREATE TABLE sequences (
    name TEXT PRIMARY KEY,
    next BIGINT NOT NULL
);
INSERT INTO sequences (name, next) VALUES ('requests', 1), ('lanes', 1), ('daemons', 1);

-- The last transaction of each connection, by which one whose commit got no answer is looked up. Its rows change with
-- every transaction, so they stay on their page.
CREATE TABLE receipts (
    connection BIGINT PRIMARY KEY,
    number BIGINT NOT NULL,
    written_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
