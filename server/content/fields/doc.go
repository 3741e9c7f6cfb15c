// Package fields has the table of the fields that exams have in files: their names in JSON Lines, in sheets and in the resource, and what they
// mean. The importers, the template and docs/formats.md use it. Limits come from the resource definition, so they are in one place.
package fields
