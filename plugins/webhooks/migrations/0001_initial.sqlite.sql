-- Webhooks, at most one an account, and the durable outbox of their events.

-- `secrets` is a JSON array, see signing.py. `failing`: its last delivery failed, so it gets one at a time.
CREATE TABLE webhooks (
    account_id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    secrets TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    disabled_at REAL,
    disabled_reason TEXT,
    failing INTEGER NOT NULL DEFAULT 0
) STRICT;

-- An event is pending exactly while `due_at` is set; `lease` is the daemon that delivers it at the moment. `tries` counts
-- the attempts since it became pending, `attempts` all of them.
CREATE TABLE webhook_events (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    type TEXT NOT NULL,
    created_at REAL NOT NULL,
    data TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    due_at REAL,
    lease INTEGER
) STRICT;
CREATE INDEX webhook_events_account ON webhook_events (account_id, id);
CREATE INDEX webhook_events_due ON webhook_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_events_leased ON webhook_events (lease) WHERE lease IS NOT NULL;
CREATE INDEX webhook_events_created ON webhook_events (created_at);

CREATE TABLE webhook_attempts (
    event_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    status_code INTEGER,
    error TEXT,
    duration_ms INTEGER NOT NULL,
    PRIMARY KEY (event_id, number)
) STRICT;
