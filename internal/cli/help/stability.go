package help

import "github.com/spf13/cobra"

// previewText is what the help of a command says whose shape is not settled.
const previewText = "This command is a preview: a new minor version may change its flags, its exit codes and " +
	"what it prints. CHANGELOG.md says so."

// MarkPreview marks a command, and those below it, as one whose flags, exit codes and output may change between minor
// versions. A command without the mark keeps them until the next major version, and scripts may rely on that.
func MarkPreview(cmd *cobra.Command) *cobra.Command {
	for _, each := range append(cmd.Commands(), cmd) {
		each.Short += " (preview)"
		if each.Long != "" {
			each.Long += "\n\n"
		}
		each.Long += previewText
	}
	return cmd
}
