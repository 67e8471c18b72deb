-- Finds the sessions that work or wait, of which a store of years has a few: for who takes them up
-- at a start, and for who lists what waits. An append that says nothing of a session's head does
-- not touch it.
CREATE INDEX sessions_busy ON sessions (state) WHERE state <> 'idle';
