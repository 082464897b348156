-- Letting old entries go: whole partitions, once an archive holds them, and nothing else.

-- How many epochs a partition holds; number n holds those from n times that on. What is smaller
-- than a partition is never trimmed, so this is how finely a log can be. Chosen while the log has
-- no entry (`divide_log`), and fixed from then on.
CREATE TABLE log_partitioning (
    is_chosen boolean PRIMARY KEY DEFAULT true CHECK (is_chosen),
    epochs_per_partition bigint NOT NULL CHECK (epochs_per_partition BETWEEN 1000 AND 100000000)
);
INSERT INTO log_partitioning (epochs_per_partition) VALUES (1000000);

CREATE FUNCTION refuse_division() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NOT EXISTS (SELECT FROM log_origin)
       AND NOT EXISTS (SELECT FROM log_entries) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% on % is refused: the log has begun.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'The size of partitions is chosen before the first entry.',
              SCHEMA = TG_TABLE_SCHEMA,
              TABLE = TG_TABLE_NAME;
END
$$;
CREATE TRIGGER divided_once BEFORE UPDATE OR DELETE OR TRUNCATE ON log_partitioning
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_division();
ALTER TABLE log_partitioning ENABLE ALWAYS TRIGGER divided_once;

-- Where the rows begin: everything up to `epoch` is in `archive` and no longer here. The row of
-- that epoch stays whole: its hash is what the next entry continues, and with its digest the
-- snapshot of that epoch can be believed. Entry ids, results and hashes of all the others stay in
-- `decisions`. One row for each partition that went; the newest counts.
CREATE TABLE log_seams (
    epoch bigint PRIMARY KEY CHECK (epoch >= 1),
    entry_id uuid NOT NULL,
    kind text NOT NULL,
    payload bytea NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    previous_hash bytea NOT NULL CHECK (octet_length(previous_hash) = 32),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- The Merkle root over all entries up to here, as the archive has it.
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    archive text NOT NULL CHECK (archive <> ''),
    -- The keys that vouched for the archive; none if nobody did.
    anchored_by text[] NOT NULL,
    trimmed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    trimmed_by text NOT NULL
);
ALTER TABLE log_seams ALTER COLUMN payload SET STORAGE EXTERNAL;
SELECT make_append_only('log_seams');

-- A snapshot at a seam is where every restore of what is left begins, so it stays.
CREATE FUNCTION refuse_unseaming() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM log_seams WHERE epoch = OLD.epoch) THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    RAISE EXCEPTION '% on % is refused: the log begins behind the snapshot of epoch %.',
        TG_OP, TG_TABLE_NAME, OLD.epoch
        USING ERRCODE = 'restrict_violation',
              HINT = 'Without it the entries that are left lead nowhere.',
              SCHEMA = TG_TABLE_SCHEMA,
              TABLE = TG_TABLE_NAME;
END
$$;
CREATE TRIGGER seam_kept BEFORE UPDATE OR DELETE ON snapshots
    FOR EACH ROW EXECUTE FUNCTION refuse_unseaming();
ALTER TABLE snapshots ENABLE ALWAYS TRIGGER seam_kept;

CREATE FUNCTION epochs_per_partition() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT epochs_per_partition FROM log_partitioning
$$;

CREATE FUNCTION oldest_log_partition() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT min(substring(relname FROM '^log_entries_([0-9]+)$')::bigint)
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'log_entries'::regclass
$$;

-- As before, with partitions of the size that was chosen.
CREATE OR REPLACE FUNCTION extend_log(upto bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    size CONSTANT bigint := epochs_per_partition();
    partitions_per_call_max CONSTANT bigint := 100;
    ahead CONSTANT bigint := upto / size + 1;
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
                                partitions_per_call_max * size);
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ringlog.extend_log', 0));
    FOR number IN newest + 1 .. ahead LOOP
        partition := format('log_entries_%s', number);
        CONTINUE WHEN to_regclass(partition) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE %I (LIKE log_entries '
            'INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE) WITH ('
            'fillfactor = 100, autovacuum_freeze_min_age = 0, '
            'autovacuum_vacuum_insert_scale_factor = 0, '
            'autovacuum_vacuum_insert_threshold = 50000)', partition);
        PERFORM make_append_only(partition::regclass);
        EXECUTE format(
            'ALTER TABLE log_entries ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            partition, number * size, (number + 1) * size);
    END LOOP;
END
$$;

-- Make room behind the tip, and say up to where there is some: a million entries, or with small
-- partitions 64 of them, which is still more than are appended between two looks.
CREATE FUNCTION make_log_room(tip bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    upto CONSTANT bigint := tip + least(1000000, 64 * epochs_per_partition());
BEGIN
    PERFORM extend_log(upto);
    RETURN upto;
END
$$;

-- Choose the size of partitions, in a log that never had an entry. The same size again is no
-- change, whenever it comes; another one comes too late once the log has begun.
CREATE FUNCTION divide_log(size bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    partition regclass;
BEGIN
    IF size = epochs_per_partition() THEN
        RETURN true;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('ringlog.extend_log', 0));
    LOCK TABLE log_entries IN ACCESS EXCLUSIVE MODE;
    IF size = epochs_per_partition() THEN
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM log_origin) OR EXISTS (SELECT FROM log_entries) THEN
        RETURN false;
    END IF;
    UPDATE log_partitioning SET epochs_per_partition = size;
    FOR partition IN SELECT inhrelid::regclass FROM pg_inherits
                     WHERE inhparent = 'log_entries'::regclass LOOP
        EXECUTE format('DROP TABLE %s', partition);
    END LOOP;
    PERFORM extend_log(1);
    RETURN true;
END
$$;

CREATE FUNCTION refuse_trim(why text, hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'Nothing is trimmed: %', why
        USING ERRCODE = 'restrict_violation', HINT = hint;
END
$$;

-- What stands against letting go of a partition, judged by its own rows; null if nothing does.
-- Reads all of it and locks nobody out: these rows can no longer change.
CREATE FUNCTION fault_in_partition(partition regclass, first bigint, seam bigint, before bytea)
RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    rows_found bigint;
    broken bigint;
    undecided bigint;
BEGIN
    EXECUTE format(
        'SELECT count(*), '
        'min(epoch) FILTER (WHERE previous_hash <> came_before '
        '                   OR hash <> sha256(previous_hash || payload)), '
        'min(epoch) FILTER (WHERE NOT is_decided) FROM ('
        '  SELECT entry.epoch, entry.previous_hash, entry.hash, entry.payload, '
        '  lag(entry.hash, 1, $1) OVER (ORDER BY entry.epoch) AS came_before, '
        '  coalesce(decision.entry_id = entry.entry_id AND decision.hash = entry.hash, false) '
        '  AS is_decided '
        '  FROM %s AS entry LEFT JOIN decisions AS decision ON decision.epoch = entry.epoch'
        ') AS checked', partition) INTO rows_found, broken, undecided USING before;
    IF rows_found <> seam - first + 1 THEN
        RETURN format('of epochs %s to %s there are %s rows.', first, seam, rows_found);
    END IF;
    IF broken IS NOT NULL THEN
        RETURN format('epoch %s does not continue the chain; it was changed.', broken);
    END IF;
    IF undecided IS NOT NULL THEN
        RETURN format('a retry of the entry at epoch %s could not be answered.', undecided);
    END IF;
    RETURN NULL;
END
$$;

-- Let go of the oldest partition, which ends at `seam`; false if that was done before. The caller
-- has verified an archive that has this hash and root there. What can be seen from in here is seen
-- again: that the rows are the chain that leads to the hash, that the snapshot of the seam is that
-- of its entry, that every retry still gets its answer, and that the log goes on behind it.
-- Rows are read first; only then, for the moment that detaching takes, everybody else waits.
CREATE FUNCTION trim_log(
    seam bigint, seam_hash bytea, seam_root bytea,
    archive text, anchored_by text[], trimmed_by text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    attempts_max CONSTANT integer := 100;
    size CONSTANT bigint := epochs_per_partition();
    number bigint;
    partition regclass;
    before log_seams;
    entry log_seams;
    fault text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('ringlog.trim_log', 0)) THEN
        PERFORM refuse_trim('somebody else trims this log.', 'Wait until that has ended.');
    END IF;
    SELECT * INTO before FROM log_seams ORDER BY epoch DESC LIMIT 1;
    IF seam <= before.epoch THEN
        IF EXISTS (SELECT FROM decisions WHERE epoch = seam AND hash = seam_hash) THEN
            RETURN false;
        END IF;
        PERFORM refuse_trim(format('epoch %s had another hash.', seam),
                            'The archive is of another history; keep it, and find out why.');
    END IF;
    number := oldest_log_partition();
    IF seam <> (number + 1) * size - 1 THEN
        PERFORM refuse_trim(
            format('the oldest partition does not end at epoch %s.', seam),
            format('It ends at %s; partitions go whole and one after another.',
                   (number + 1) * size - 1));
    END IF;
    SELECT found.epoch, found.entry_id, found.kind, found.payload, found.digest,
           found.previous_hash, found.hash
    INTO entry.epoch, entry.entry_id, entry.kind, entry.payload, entry.digest,
         entry.previous_hash, entry.hash
    FROM log_entries AS found WHERE found.epoch = seam;
    IF entry.hash IS DISTINCT FROM seam_hash THEN
        PERFORM refuse_trim(format('epoch %s has another hash, or is not there.', seam),
                            'The archive is of another history; keep it, and find out why.');
    END IF;
    IF NOT EXISTS (SELECT FROM log_entries WHERE epoch = seam + 1 AND previous_hash = seam_hash)
    THEN
        PERFORM refuse_trim(format('the log ends at epoch %s.', seam),
                            'Its newest entry always stays; commit something first.');
    END IF;
    IF NOT EXISTS (SELECT FROM snapshots WHERE epoch = seam AND hash = seam_hash
                                           AND digest = entry.digest) THEN
        PERFORM refuse_trim(format('there is no snapshot of epoch %s.', seam),
                            'ringlog audit trim makes one from the archive.');
    END IF;
    partition := format('log_entries_%s', number)::regclass;
    fault := fault_in_partition(partition, greatest(number * size, 1), seam,
                                coalesce(before.hash, decode(repeat('00', 32), 'hex')));
    IF fault IS NOT NULL THEN
        PERFORM refuse_trim(fault, 'Keep everything, and run: ringlog audit verify');
    END IF;
    INSERT INTO log_seams (epoch, entry_id, kind, payload, digest, previous_hash, hash,
                           root, archive, anchored_by, trimmed_by)
    VALUES (seam, entry.entry_id, entry.kind, entry.payload, entry.digest, entry.previous_hash,
            entry.hash, seam_root, archive, anchored_by, trimmed_by);
    FOR attempt IN 1 .. attempts_max LOOP
        BEGIN
            EXECUTE format('ALTER TABLE log_entries DETACH PARTITION %s', partition);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = attempts_max THEN
                RAISE;
            END IF;
            -- Whoever queued behind us goes first.
            PERFORM pg_sleep(0.05);
        END;
    END LOOP;
    EXECUTE format('DROP TABLE %s', partition);
    RETURN true;
END
$$;

-- From here on the log belongs to the role that nobody logs in as. Whoever runs the service may
-- add to it, read it, make room and call the function above; detaching a partition or disabling
-- a trigger is left to that function, and to superusers. Whoever owns the schema can still drop a
-- table, so services had better run as a user who does not; the hash chain reveals it in any case.
DO $$
DECLARE
    home CONSTANT text := current_schema();
    daily CONSTANT text := current_user;
    relation text;
    signature text;
BEGIN
    IF NOT pg_has_role(current_user, 'ringlog_trimmer', 'MEMBER') THEN
        EXECUTE format('GRANT ringlog_trimmer TO %I', current_user);
    END IF;
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO ringlog_trimmer', home);
    GRANT SELECT ON decisions, snapshots, log_origin TO ringlog_trimmer;
    FOR relation IN
        SELECT inhrelid::regclass::text FROM pg_inherits
        WHERE inhparent = 'log_entries'::regclass
        UNION ALL SELECT unnest(ARRAY['log_entries', 'log_seams', 'log_partitioning'])
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO ringlog_trimmer', relation);
        EXECUTE format('REVOKE ALL ON %s FROM %I', relation, daily);
        EXECUTE format('GRANT SELECT ON %s TO %I', relation, daily);
    END LOOP;
    EXECUTE format('GRANT INSERT ON log_entries TO %I', daily);
    FOREACH signature IN ARRAY ARRAY[
        'extend_log(bigint)', 'divide_log(bigint)', 'make_log_room(bigint)',
        'trim_log(bigint, bytea, bytea, text, text[], text)'
    ] LOOP
        -- A temporary table of the caller's must not stand in for one of ours.
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp',
                       signature, home);
        EXECUTE format('ALTER FUNCTION %s OWNER TO ringlog_trimmer', signature);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', signature, daily);
    END LOOP;
    -- Whoever wants to read or append waits behind one who wants to detach, so that is not for long.
    ALTER FUNCTION trim_log(bigint, bytea, bytea, text, text[], text) SET lock_timeout = '200ms';
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'The log cannot be handed to ringlog_trimmer (%); let an administrator run: '
            'GRANT ringlog_trimmer TO %, and GRANT CREATE ON SCHEMA % TO ringlog_trimmer.',
            SQLERRM, quote_ident(daily), quote_ident(home)
            USING ERRCODE = 'insufficient_privilege';
END
$$;
