-- Shortcuts through the log: the metadata at one epoch, encoded whole.

-- `hash` is the chain's at that epoch: whoever starts from a snapshot can check the next entry.
-- Unlike the log, snapshots may be removed; replay makes them again.
CREATE TABLE snapshots (
    epoch bigint PRIMARY KEY CHECK (epoch >= 1),
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    image bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL
);
