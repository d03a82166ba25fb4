package main

import (
	"os"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/spf13/cobra"
)

// withServer runs f with a client of the broker that --server or KEYSTRAND_SERVER names.
func withServer(f func(cmd *cobra.Command, client *admin.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := admin.NewClient(serverURL(cmd))
		if err != nil {
			return &usageError{err}
		}
		defer client.Close()
		return f(cmd, client, args)
	}
}

// serverURL: flag beats environment beats default.
func serverURL(cmd *cobra.Command) string {
	if server, err := cmd.Flags().GetString("server"); err == nil && server != "" {
		return server
	}
	if server := os.Getenv("KEYSTRAND_SERVER"); server != "" {
		return server
	}
	return admin.DefaultServer
}
