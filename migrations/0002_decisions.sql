-- What became of each proposal, by the entry id that its client chose.

-- One unique index for appends and refusals alike: whoever decides an entry id claims it here in
-- the statement that appends or records, and a second one waits and finds the first one's answer.
-- Looking first and writing later would leak: an append that hangs in a broken connection may
-- still commit after somebody else has refused it.
-- Rows outlive the entries they speak of: a retry gets its answer also after the log was trimmed.
CREATE TABLE decisions (
    entry_id uuid PRIMARY KEY,
    -- Hash of what was asked, so that an id that comes again with another body is noticed.
    request bytea NOT NULL,
    -- Where it was appended, and the answer that was given.
    epoch bigint CHECK (epoch >= 1),
    hash bytea CHECK (octet_length(hash) = 32),
    result bytea,
    -- Why it was not, and the tip at which that was decided; 0 is the empty log.
    refusal bytea,
    refused_at bigint CHECK (refused_at >= 0),
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT appended_or_refused CHECK (
        (num_nulls(epoch, hash, result) = 0 AND num_nonnulls(refusal, refused_at) = 0)
        OR (num_nonnulls(epoch, hash, result) = 0 AND num_nulls(refusal, refused_at) = 0)
    )
);

-- An epoch answers one entry id. Refusals have none and would only make the index larger.
CREATE UNIQUE INDEX decisions_epoch ON decisions (epoch) WHERE epoch IS NOT NULL;

-- To find old refusals; appends do not pay for it.
CREATE INDEX decisions_refused ON decisions (decided_at) WHERE epoch IS NULL;

-- An append carries a deadline of far less than this by the same clock, so once it is over no
-- statement can be under way that this refusal still has to stop.
CREATE FUNCTION refusals_kept_for() RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT interval '1 day'
$$;

CREATE FUNCTION refuse_early_forgetting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.epoch IS NULL AND OLD.decided_at < clock_timestamp() - refusals_kept_for() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE on % is refused: entry % was decided for good.',
        TG_TABLE_NAME, OLD.entry_id
        USING ERRCODE = 'restrict_violation',
              HINT = 'Only old refusals may be forgotten: SELECT forget_refusals()',
              SCHEMA = TG_TABLE_SCHEMA,
              TABLE = TG_TABLE_NAME;
END
$$;

CREATE TRIGGER final BEFORE UPDATE OR TRUNCATE ON decisions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER kept BEFORE DELETE ON decisions
    FOR EACH ROW EXECUTE FUNCTION refuse_early_forgetting();
-- Also where session_replication_role = replica turns other triggers off.
ALTER TABLE decisions ENABLE ALWAYS TRIGGER final;
ALTER TABLE decisions ENABLE ALWAYS TRIGGER kept;

-- Forget refusals that no retry will ask for; call it again while it answers the full number.
-- now() and not the clock, because an index is searched only for what stands still.
CREATE FUNCTION forget_refusals() RETURNS bigint LANGUAGE sql AS $$
    WITH forgotten AS (
        DELETE FROM decisions WHERE entry_id IN (
            SELECT entry_id FROM decisions
            WHERE epoch IS NULL AND decided_at < now() - refusals_kept_for()
            ORDER BY decided_at
            LIMIT 10000
            FOR UPDATE SKIP LOCKED
        )
        RETURNING entry_id
    )
    SELECT count(*) FROM forgotten
$$;
