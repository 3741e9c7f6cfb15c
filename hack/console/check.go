package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"examprep.dev/hack/npm"
)

// checkTypes checks the console's scripts with server/console/tsconfig.json, which finds the packages and the contract's
// types below .dev/console.
func checkTypes(ctx context.Context, root string, packages npm.Dir) error {
	folder := filepath.Join(root, ".dev", "console")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of types: %w", err)
	}
	link := filepath.Join(folder, "node_modules")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the link to the packages: %w", err)
	}
	if err := os.Symlink(packages.File("."), link); err != nil {
		return fmt.Errorf("link the packages: %w", err)
	}
	source := filepath.Join("api", "openapi", "openapi.json")
	if err := program(ctx, packages, root, "openapi-typescript", source, "--output", filepath.Join(folder, "api.d.ts")); err != nil {
		return err
	}
	return program(ctx, packages, root, "tsc", "--project", filepath.Join("server", "console"), "--pretty", "false")
}

// program runs a program of the packages in dir. Its error is the program's output.
func program(ctx context.Context, packages npm.Dir, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, packages.Program(name), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), packages.Environment()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
