-- Which releases were held against this log: every entry up to `epoch` executed again, with the
-- digest that it records. A release sequences only what it can reproduce.

-- A release is named by a fingerprint of all that takes part in deciding; `version` is for people.
-- `hash` is the chain's at `epoch`: in another log, such as one that lost its tail and went
-- another way, the row says nothing.
CREATE TABLE reproduced (
    fingerprint bytea PRIMARY KEY CHECK (octet_length(fingerprint) = 32),
    version text NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    reproduced_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reproduced_by text NOT NULL
);
