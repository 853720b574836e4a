package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const name = "aws-cloud-controller-manager"

// version is set by the build with -ldflags "-X main.version=v1.2.3". Without it, go install has recorded the module's version.
var version string

// reportOwnVersion makes --version print this program's version and what it is built from. The library would print the version of
// k8s.io/component-base, which is a placeholder in every build that does not set it.
func reportOwnVersion(command *cobra.Command) {
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if asked := cmd.Flags().Lookup("version").Value.String(); asked == "true" || asked == "raw" {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), describe(version, info))
			return err
		}
		return run(cmd, args)
	}
}

// describe says in a line what a build is. A nil info is a build without module information.
func describe(version string, info *debug.BuildInfo) string {
	parts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if version == "" {
			version = info.Main.Version
		}
		var libraries []string
		for _, dep := range info.Deps {
			if dep.Path == "k8s.io/cloud-provider" || dep.Path == "k8s.io/cloud-provider-aws" {
				libraries = append(libraries, dep.Path+" "+dep.Version)
			}
		}
		parts = append(libraries, parts...)
	}
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	return fmt.Sprintf("%s %s (%s)", name, version, strings.Join(parts, ", "))
}
