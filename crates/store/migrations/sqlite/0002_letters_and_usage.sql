-- What other processes leave for the owner of a session. key orders by arrival; session is the
-- session's key, as in events; sum is a CRC-32C over session, id and body. The index that keeps
-- ids apart also finds a session's letters.
CREATE TABLE letters (
  key INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  id TEXT NOT NULL,
  sum INTEGER NOT NULL,
  body TEXT NOT NULL,
  UNIQUE (session, id)
) STRICT;

-- Finds what was used since an instant, over all sessions: the one kind that is asked for at every
-- start of a turn. 13 is its code of kind.rs, 141 the same with its body in a file. An append of
-- rows of other kinds does not touch it.
CREATE INDEX events_of_usage ON events (at) WHERE kind IN (13, 141);
