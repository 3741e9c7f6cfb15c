// Package developer has the routes under /v1/developer (docs/spec.md, parts 5 and 6). Signed-in developers manage keys and
// webhooks there, and see how often their keys were used.
//
// Each resource has a file with its routes and handlers. A session is a cookie: [Sessions] admits a request and refuses what a
// page of another origin sends. Changes are recorded in the audit log with the developer's name and address.
package developer
