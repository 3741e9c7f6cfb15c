-- +goose Up
-- Owned by server/keys. Keys to which a tier change may give another allowance, and whose version has yet to be raised for
-- it. Written with the change in one transaction, emptied by chunks after it: a change of a tier of a million keys locks
-- none of them for longer than a chunk, and loses none if the process dies between. No foreign key: it would lock the keys.
CREATE TABLE key_raises (
    key_id uuid PRIMARY KEY
);
