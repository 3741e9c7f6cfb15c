// Package console serves the developer console: one HTML document, and the scripts and styles that the binary embeds.
package console
