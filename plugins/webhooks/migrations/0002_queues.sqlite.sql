-- Each account's queue by itself: what is next in it is found without looking at the rest, however long it is.

CREATE INDEX webhook_events_queue ON webhook_events (account_id, due_at, id) WHERE due_at IS NOT NULL AND lease IS NULL;
CREATE INDEX webhook_events_taken ON webhook_events (account_id) WHERE lease IS NOT NULL;
