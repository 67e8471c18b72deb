-- The version once more, beside user_version: where the two differ the header is damaged. Both are
-- set after every migration.
CREATE TABLE schema_version (version INTEGER NOT NULL) STRICT;
INSERT INTO schema_version VALUES (1);

-- One row per session: what lists show, and who may append. No index covers updated_at, because
-- it changes with every append and would add two pages to every commit; a list reads this small
-- table whole instead.
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  cwd TEXT NOT NULL,
  title TEXT,
  model TEXT NOT NULL,
  mode TEXT NOT NULL,
  state TEXT NOT NULL,
  prompts INTEGER NOT NULL,
  cost_usd REAL NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  owner_instance TEXT,
  owner_pid INTEGER
) STRICT;
CREATE INDEX sessions_by_cwd ON sessions (cwd);

-- The logs. id is session key << 36 | seq, so that one tree without an index keeps each session's
-- rows together and in order. kind is a code of kind.rs, plus 128 where body names a file of blobs/.
-- sum is a CRC-32C over everything else.
CREATE TABLE events (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  at INTEGER NOT NULL,
  frame INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;

-- Which rows name which file, so that a file goes with the last row that names it.
CREATE TABLE blobs (
  hash TEXT NOT NULL,
  event INTEGER NOT NULL,
  PRIMARY KEY (hash, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_by_event ON blobs (event);

CREATE TABLE snapshots (
  session INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- For people with a SQLite shell; the program does not use it.
CREATE VIEW log AS
  SELECT s.id AS session, e.id & 0xFFFFFFFFF AS seq, e.kind, e.at, e.frame, e.body
  FROM events e JOIN sessions s ON s.key = e.id >> 36;
