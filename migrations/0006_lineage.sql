-- Where a log came from that did not begin in this database.

-- A database that was filled from an archive continues that history from `epoch` on, and whatever
-- an older database held behind that epoch is no part of it. The row is written before the first
-- entry is, so a log that ends before `epoch` is one whose import has not ended.
CREATE TABLE lineage (
    id uuid PRIMARY KEY,
    cluster uuid NOT NULL,
    -- The last entry that came from the archive, and the chain and tree up to it.
    epoch bigint NOT NULL CHECK (epoch >= 1),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    archive text NOT NULL,
    -- The keys that vouched for the archive; none if nobody did.
    anchored_by text[] NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    recorded_by text NOT NULL
);
SELECT make_append_only('lineage');
