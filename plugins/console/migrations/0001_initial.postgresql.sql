-- Sessions of the console, by the SHA-256 of their tokens.

CREATE TABLE console_sessions (
    token_hash TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    used_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX console_sessions_key ON console_sessions (key_id, created_at);
