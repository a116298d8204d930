-- Accounts, keys, batches, their requests and results, and what daemons share.

CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    tier TEXT NOT NULL,
    status TEXT NOT NULL,
    quota INTEGER,
    quota_set INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL
) STRICT;

CREATE INDEX accounts_deleted ON accounts (id) WHERE status = 'deleted';

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    hash BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    models TEXT,
    created_at REAL NOT NULL,
    expires_at REAL,
    revoked_at REAL
) STRICT;
CREATE INDEX keys_account ON keys (account_id);

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
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    in_progress_at REAL,
    finalizing_at REAL,
    completed_at REAL,
    failed_at REAL,
    expired_at REAL,
    cancelling_at REAL,
    cancelled_at REAL,
    ended_at REAL,
    delete_at REAL,
    deleted_at REAL,
    total INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    cost INTEGER NOT NULL DEFAULT 0,
    cost_unknown INTEGER NOT NULL DEFAULT 0,
    first_number INTEGER,
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
) STRICT;
CREATE INDEX batches_account ON batches (account_id, api, id);
CREATE INDEX batches_unfinished ON batches (account_id) WHERE ended_at IS NULL AND deleted_at IS NULL;
CREATE INDEX batches_expiry ON batches (expires_at) WHERE closed_as IS NULL AND ended_at IS NULL;
CREATE INDEX batches_retention ON batches (delete_at) WHERE delete_at IS NOT NULL AND deleted_at IS NULL;

-- One row for each model of each batch: what a pool looks through to find work, never the requests themselves.
CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    batch_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    model TEXT NOT NULL,
    queued INTEGER NOT NULL
) STRICT;
CREATE INDEX lanes_batch ON lanes (batch_id);
CREATE INDEX lanes_work ON lanes (model) WHERE queued > 0;

-- What changes while a request runs; small, so that an update is cheap.
CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at REAL NOT NULL DEFAULT 0,
    lease INTEGER,
    started_at REAL,
    ended_at REAL,
    request_id TEXT,
    error_code TEXT,
    error_message TEXT,
    error_status INTEGER
) STRICT;
CREATE INDEX requests_queued ON requests (lane, due_at DESC, number) WHERE status = 'queued';
CREATE INDEX requests_leased ON requests (lease) WHERE lease IS NOT NULL;

-- What never changes: what the client sent, and what a success answered.
CREATE TABLE request_bodies (
    number INTEGER PRIMARY KEY,
    custom_id TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE results (
    number INTEGER PRIMARY KEY,
    status_code INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

CREATE TABLE idempotency (
    account_id TEXT NOT NULL,
    key TEXT NOT NULL,
    route TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    batch_id TEXT NOT NULL,
    forget_at REAL,
    PRIMARY KEY (account_id, key)
) STRICT;
CREATE INDEX idempotency_batch ON idempotency (batch_id);
CREATE INDEX idempotency_forget ON idempotency (forget_at) WHERE forget_at IS NOT NULL;

-- What was spent, by UTC day, model and way ('batch' or 'interactive'). Costs are pico-USD.
CREATE TABLE spending (
    account_id TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    way TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    cost_unknown INTEGER NOT NULL,
    PRIMARY KEY (account_id, day, model, way)
) STRICT;

-- Daemons that may hold leases: a running request names its daemon's row, and that row has the deadline.
CREATE TABLE daemons (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    started_at REAL NOT NULL,
    deadline REAL NOT NULL,
    models TEXT NOT NULL DEFAULT '[]',
    interactive TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- How many of a model's places a daemon holds; their sum never passes the model's concurrency.
CREATE TABLE places (
    model TEXT NOT NULL,
    daemon INTEGER NOT NULL,
    held INTEGER NOT NULL,
    wanted INTEGER NOT NULL,
    PRIMARY KEY (model, daemon)
) STRICT;

-- Work to do in the background, once, by any daemon: see jobs.py.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    due_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease INTEGER
) STRICT;
CREATE INDEX jobs_due ON jobs (kind, due_at);
CREATE INDEX jobs_subject ON jobs (subject);
CREATE INDEX jobs_leased ON jobs (lease) WHERE lease IS NOT NULL;

-- Models that the operator drains by the API; those drained by configuration are not here.
CREATE TABLE drained_models (
    model TEXT PRIMARY KEY,
    since REAL NOT NULL
) STRICT;

CREATE TABLE sequences (
    name TEXT PRIMARY KEY,
    next INTEGER NOT NULL
) STRICT;
INSERT INTO sequences (name, next) VALUES ('requests', 1), ('lanes', 1), ('daemons', 1);
