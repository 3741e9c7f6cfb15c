// Command openapi completes the HTTP contract: it reads api/openapi/contract.yaml and writes api/openapi/openapi.json, and the
// page that shows it, server/httpapi/reference/docs/index.html. It runs in the root of the repository.
package main

import (
	"fmt"
	"os"
)

const (
	sourcePath   = "api/openapi/contract.yaml"
	documentPath = "api/openapi/openapi.json"
	pagePath     = "server/httpapi/reference/docs/index.html"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func generate() error {
	source, err := os.ReadFile(sourcePath)
	if err != nil {
		return fmt.Errorf("read the contract: %w", err)
	}
	document, err := convert(source, complete)
	if err != nil {
		return err
	}
	if err := os.WriteFile(documentPath, document, 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	page, err := renderPage(document)
	if err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	if err := os.WriteFile(pagePath, page, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
