-- +goose Up
-- One row: which environment this database belongs to. A process of the other environment refuses to start.
CREATE TABLE installation (
    singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    created_at  timestamptz NOT NULL DEFAULT now()
);
