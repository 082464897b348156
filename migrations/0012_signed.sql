-- What was signed last, so that nothing is ever signed that does not extend it.

-- One row for each origin: the log of this database, and none but that unless another archive was
-- imported before its first entry. It moves on in the statement that lets a process sign, so several
-- processes with the same key cannot sign two histories.
CREATE TABLE signed_checkpoints (
    origin text PRIMARY KEY,
    size bigint NOT NULL CHECK (size >= 1),
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed_by text NOT NULL
);

-- A signature cannot be taken back, so the row is never set back, nor removed.
CREATE FUNCTION refuse_unsigning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.origin = OLD.origin AND NEW.size > OLD.size THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% on % is refused: what was signed stays signed.', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Export the log and import it into an empty database: it signs as another one.',
              SCHEMA = TG_TABLE_SCHEMA,
              TABLE = TG_TABLE_NAME;
END
$$;
CREATE TRIGGER stays_signed BEFORE UPDATE OR DELETE ON signed_checkpoints
    FOR EACH ROW EXECUTE FUNCTION refuse_unsigning();
ALTER TABLE signed_checkpoints ENABLE ALWAYS TRIGGER stays_signed;
CREATE TRIGGER all_stay_signed BEFORE TRUNCATE ON signed_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_unsigning();
ALTER TABLE signed_checkpoints ENABLE ALWAYS TRIGGER all_stay_signed;
