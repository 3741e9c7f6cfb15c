package baseline

import "embed"

// Take is a Lua script for Redis that takes one token from each of several buckets; its comment has arguments and reply.
//
//go:embed take.lua
var Take string

// Nginx has nginx.conf, which is a text/template, and gate.lua, which nginx.conf loads.
//
//go:embed nginx.conf gate.lua
var Nginx embed.FS

// Schema creates the baseline's own tables.
//
//go:embed schema.sql
var Schema string

// Open and Submit are scripts for pgbench. They need the variables n, the number of transactions that this client has had;
// answers; and body, of an event.
var (
	//go:embed open.sql
	Open string
	//go:embed submit.sql
	Submit string
)

// CopyPapers and CopyKeys take rows in COPY's text format.
var (
	//go:embed copy_papers.sql
	CopyPapers string
	//go:embed copy_keys.sql
	CopyKeys string
)
