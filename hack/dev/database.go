package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// databaseName returns the name of the database for the migrations of a checkout. A process refuses a database that other
// migrations made; so an edited migration gets a new database, and the old one is dropped.
func databaseName(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "server", "postgres", "migrations", "*.sql"))
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	digest := sha256.New()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read migration: %w", err)
		}
		fmt.Fprintf(digest, "%s %d\n%s", filepath.Base(file), len(content), content)
	}
	return "examprep_" + hex.EncodeToString(digest.Sum(nil)[:8]), nil
}
