-- The log itself, and what may never change once it is written.

-- Trimming will be one function: SECURITY DEFINER, owned by this role, detaching whole partitions
-- up to an archive that it has verified. Nobody else, not even the owner of the tables in daily
-- use, will have a way to remove an entry. Until then the role owns nothing.
-- All databases of a server share their roles, so another migration may create it at this moment.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ringlog_trimmer') THEN
        CREATE ROLE ringlog_trimmer NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN
        NULL;
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'The role ringlog_trimmer is missing and % may not create it.', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Let an administrator run: CREATE ROLE ringlog_trimmer NOLOGIN';
END
$$;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: what is written here stays as it is.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Rows are only ever added. To correct the past, commit a new entry.',
              SCHEMA = TG_TABLE_SCHEMA,
              TABLE = TG_TABLE_NAME;
END
$$;

-- A trigger and no revoked privilege, because an owner can grant anything to itself. Per statement,
-- so that also a change of no rows is refused and inserts pay nothing. ALWAYS, because otherwise
-- session_replication_role = replica turns it off. What is left to a superuser (dropping the
-- trigger or the table, editing files) the hash chain reveals.
CREATE FUNCTION make_append_only(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', relation);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER append_only', relation);
END
$$;

-- `epoch` as primary key decides between writers: nobody else can have appended what was appended.
-- There is no unique index on entry_id here; `decisions` has it, for appends and refusals alike.
-- `payload` is the whole entry; the other columns repeat what is searched or shown.
CREATE TABLE log_entries (
    epoch bigint NOT NULL CHECK (epoch >= 1),
    entry_id uuid NOT NULL,
    kind text NOT NULL,
    payload bytea NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    previous_hash bytea NOT NULL CHECK (octet_length(previous_hash) = 32),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    committed_at timestamptz NOT NULL,
    committed_by text NOT NULL,
    actor text,
    reason text,
    -- Epochs only grow, so a page of the index is never split in its middle: fill it.
    PRIMARY KEY (epoch) WITH (fillfactor = 100)
) PARTITION BY RANGE (epoch);

-- An entry of a few hundred bytes is stored as it is in either case: compression is tried from
-- 2 kB on. Large ones were appended three times as fast, and read twice as fast, without it.
ALTER TABLE log_entries ALTER COLUMN payload SET STORAGE EXTERNAL;

SELECT make_append_only('log_entries');

-- A statement that names a partition does not fire its parent's statement triggers. `extend_log`
-- gives each partition one of its own; row triggers, which partitions inherit, stand in for it
-- where a partition was attached by hand.
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON log_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
ALTER TABLE log_entries ENABLE ALWAYS TRIGGER append_only_rows;

-- Make every partition up to the one that holds `upto`, and one ahead, so that an append never
-- waits for a partition to be made. Costs a look at the catalogue if they are there. Partitions
-- that were trimmed are not made again: it goes on from the newest.
-- Number n holds the epochs from n million on.
CREATE FUNCTION extend_log(upto bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    epochs_per_partition CONSTANT bigint := 1000000;
    partitions_per_call_max CONSTANT bigint := 100;
    ahead CONSTANT bigint := upto / epochs_per_partition + 1;
    newest bigint := newest_log_partition();
    partition text;
BEGIN
    IF newest >= ahead THEN
        RETURN;
    END IF;
    IF ahead - newest > partitions_per_call_max THEN
        RAISE EXCEPTION 'Epoch % is too far ahead of the partitions of the log.', upto
            USING ERRCODE = 'program_limit_exceeded',
                  HINT = format('Extend by at most %s epochs at a time.',
                                partitions_per_call_max * epochs_per_partition);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ringlog.extend_log', 0));
    FOR number IN newest + 1 .. ahead LOOP
        partition := format('log_entries_%s', number);
        -- Made by whoever held the lock before us.
        CONTINUE WHEN to_regclass(partition) IS NOT NULL;
        -- Made and then attached, because PARTITION OF would lock the whole log against reading
        -- and appending until this transaction ends; attaching disturbs neither.
        -- Vacuum has no dead rows to find here, only rows to freeze: soon after they are written,
        -- while they are in memory, and once, so that no wraparound vacuum ever reads the log.
        EXECUTE format(
            'CREATE TABLE %I (LIKE log_entries '
            'INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE) WITH ('
            'fillfactor = 100, autovacuum_freeze_min_age = 0, '
            'autovacuum_vacuum_insert_scale_factor = 0, '
            'autovacuum_vacuum_insert_threshold = 50000)', partition);
        PERFORM make_append_only(partition::regclass);
        EXECUTE format(
            'ALTER TABLE log_entries ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            partition, number * epochs_per_partition, (number + 1) * epochs_per_partition);
    END LOOP;
END
$$;

CREATE FUNCTION newest_log_partition() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(substring(relname FROM '^log_entries_([0-9]+)$')::bigint), -1)
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'log_entries'::regclass
$$;

SELECT extend_log(1);

-- The statement that appends epoch 1 has no previous row to name; it claims this row instead, which
-- is never given back. So a log that lost or trimmed all its rows is not begun a second time.
CREATE TABLE log_origin (
    is_claimed boolean PRIMARY KEY DEFAULT true CHECK (is_claimed),
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
SELECT make_append_only('log_origin');

-- The writer's schema of every payload, by the fingerprint in it: without it an entry of an old
-- release could not be read.
CREATE TABLE log_schemas (
    fingerprint bytea PRIMARY KEY CHECK (octet_length(fingerprint) = 8),
    schema text NOT NULL
);
SELECT make_append_only('log_schemas');
