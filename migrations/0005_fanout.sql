-- How far each topic has been published.

-- Everything up to `epoch` was acknowledged by the topic's broker at least once. A hint for where to
-- go on, and never the truth: set back, it costs duplicates, which change nothing.
CREATE TABLE fanout_positions (
    topic text PRIMARY KEY,
    epoch bigint NOT NULL CHECK (epoch >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
