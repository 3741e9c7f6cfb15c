package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"examprep.dev/server/postgres"
)

func newMigrate() *cobra.Command {
	var databaseURL, environment string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema and stamp its environment",
		Long:  "Applies what is missing, forward only. Safe to run twice, and from several pods at once.",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := parseEnvironment(environment)
			if err != nil {
				return err
			}
			if err := require("database-url", databaseURL); err != nil {
				return err
			}
			if err := postgres.Migrate(cmd.Context(), databaseURL, env); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "database is up to date (%s)\n", env)
			return err
		},
	}
	databaseFlag(cmd, &databaseURL)
	environmentFlag(cmd, &environment)
	return cmd
}
