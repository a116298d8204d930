-- Sessions of the console, by the SHA-256 of their tokens.

CREATE TABLE console_sessions (
    token_hash TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    used_at REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT;
CREATE INDEX console_sessions_key ON console_sessions (key_id, created_at);
