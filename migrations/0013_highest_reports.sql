-- How far each node ever was by its own reports. A node that starts with less was restored from an
-- old copy and may lack rows that it acknowledged, so this has to outlive a crash of the server,
-- which `reports` does not: it is logged, and written only when something in it grows.

-- `writes` is how often the node has put rows; null until it says so.
CREATE TABLE highest_reports (
    node bigint PRIMARY KEY CHECK (node >= 1),
    epoch bigint NOT NULL CHECK (epoch >= 0),
    writes bigint CHECK (writes >= 0)
) WITH (fillfactor = 50);
INSERT INTO highest_reports (node, epoch) SELECT node, highest FROM reports;

-- A process of the release before still writes it.
ALTER TABLE reports ALTER COLUMN highest DROP NOT NULL;
