package main

import (
	"context"

	"examprep.dev/hack/npm"
)

// runNPM runs a program that one of the packages of hack/npm brings, such as redocly, here.
func runNPM(ctx context.Context, root string, command []string, c *console) error {
	packages, err := npm.Install(ctx, c)
	if err != nil {
		return err
	}
	return runCommand(ctx, root, append([]string{packages.Program(command[0])}, command[1:]...), packages.Environment())
}
