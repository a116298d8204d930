-- What lists of an account's batches of all kinds show and are ordered by, and what days are summed up by.

-- label: what a person calls the input, such as a file's name. rerun_of: the batch whose requests it runs again.
ALTER TABLE batches ADD COLUMN label TEXT;
ALTER TABLE batches ADD COLUMN rerun_of TEXT;

-- By the hex digits of the ids, which grow with time whatever stands before them.
CREATE INDEX batches_recent ON batches (account_id, substr(id, length(id) - 31));
CREATE INDEX batches_rerun ON batches (rerun_of) WHERE rerun_of IS NOT NULL;
CREATE INDEX spending_day ON spending (day);
