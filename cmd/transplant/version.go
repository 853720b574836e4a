package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func newVersion(c *connection) *cobra.Command {
	var output *format
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"apiVersion": v1.GroupVersion, "kind": "Version", "version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["commit"] = s.Value
					}
				}
			}
			return output.print(c.out, v, map[string]func() error{"text": func() error {
				_, err := fmt.Fprintf(c.out, "transplant %s\n", version)
				return err
			}})
		},
	}
	output = formatFlag(cmd, "text", "json", "yaml")
	return cmd
}
