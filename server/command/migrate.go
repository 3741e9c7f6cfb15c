package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"examprep.dev/server/command/cli"
	"examprep.dev/server/postgres"
)

func newMigrate() *cobra.Command {
	var databaseURL, environment string
	var replace bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema and stamp its environment",
		Long:  "Applies what is missing, forward only. Safe to run twice, and from several pods at once.",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := parseEnvironment(environment)
			if err != nil {
				return err
			}
			if err := cli.Require("database-url", databaseURL); err != nil {
				return err
			}
			if err := postgres.Migrate(cmd.Context(), databaseURL, env); err != nil {
				return err
			}
			if replace {
				installation, err := postgres.ReplaceInstallation(cmd.Context(), databaseURL, env)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "the database is a new installation, %s\n", installation.ID)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "database is up to date (%s)\n", env)
			return err
		},
	}
	cli.DatabaseFlag(cmd, &databaseURL)
	environmentFlag(cmd, &environment)
	cmd.Flags().BoolVar(&replace, "new-installation", false,
		"give the database another installation id; once for a copy of a database, while no process uses it")
	return cmd
}
