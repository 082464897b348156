-- Who should do what only one process need do, such as sequencing.

-- Nothing is safe because of a lease: the primary key of the log decides between two holders. It
-- only spares them the race. `term` grows with every new holder; expiry is by the database's clock.
CREATE TABLE lease (
    name text PRIMARY KEY,
    holder text NOT NULL,
    url text NOT NULL,
    term bigint NOT NULL CHECK (term >= 1),
    expires_at timestamptz NOT NULL
);
