-- What drivers say of the sequences that they drive: of this moment, so it is not worth a
-- write-ahead log. After a crash of the server it comes again within a second.

-- One row for each sequence in progress. Where several drivers drive one, the first is heard until
-- it falls silent. `driven` is what it said, as JSON.
CREATE UNLOGGED TABLE progress (
    sequence bigint PRIMARY KEY CHECK (sequence >= 1),
    driver text NOT NULL,
    driven bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- How fast the last movements were, for whoever wants to know how long the next one will take.
-- A row outlives its sequence; only the newest stay.
CREATE UNLOGGED TABLE movement_rates (
    sequence bigint PRIMARY KEY CHECK (sequence >= 1),
    rows_per_s float8 NOT NULL CHECK (rows_per_s > 0)
) WITH (fillfactor = 50);
