-- What nodes report of themselves, and what relays have published: of this moment and soon
-- replaced, so it is not worth a write-ahead log. After a crash of the server it comes again.

-- One row for each node. `highest` only grows: a node that reports less was restored from an old
-- copy. `fault` says how its history differs from the log as it was at `tip`. `marks` are pairs of
-- big-endian 64-bit integers, an epoch and the microsecond at which the node had applied up to it.
-- Rows are updated in place as long as there is room on their page.
CREATE UNLOGGED TABLE reports (
    node bigint PRIMARY KEY CHECK (node >= 1),
    epoch bigint NOT NULL CHECK (epoch >= 0),
    highest bigint NOT NULL,
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    version text NOT NULL,
    tip bigint NOT NULL CHECK (tip >= 0),
    fault text CHECK (fault IN ('ahead', 'other_hash')),
    drained bigint,
    data bytea,
    marks bytea NOT NULL CHECK (octet_length(marks) % 16 = 0),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Looked at once a second by every CMS, and nearly always empty.
CREATE INDEX reports_faulty ON reports (node) WHERE fault IS NOT NULL;

-- An admin's decision to go on although a node has another history. Logged, because nobody else
-- would say it again.
CREATE TABLE acknowledged_divergences (
    node bigint NOT NULL,
    epoch bigint NOT NULL,
    hash bytea NOT NULL,
    reason text NOT NULL,
    acknowledged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (node, epoch, hash)
);

CREATE UNLOGGED TABLE published_marks (
    relay text PRIMARY KEY,
    marks bytea NOT NULL CHECK (octet_length(marks) % 16 = 0),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
