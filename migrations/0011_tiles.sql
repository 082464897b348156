-- The Merkle tree over all entries, as far as it never changes again.

-- A full tile of C2SP tlog-tiles, 256 hashes, of level 1 and above: number n of level 1 stands for
-- 65,536 entries. They follow from the hashes in `decisions`, and only save computing them anew;
-- level 0 is quick to compute and would take as much room again.
CREATE TABLE log_tiles (
    level smallint NOT NULL CHECK (level BETWEEN 1 AND 7),
    number bigint NOT NULL CHECK (number >= 0),
    hashes bytea NOT NULL CHECK (octet_length(hashes) = 8192),
    PRIMARY KEY (level, number)
);
SELECT make_append_only('log_tiles');
