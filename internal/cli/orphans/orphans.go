// Package orphans has the command that removes from the cloud what was made for Services that are gone.
package orphans

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/orphans"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/visible"
)

// dashed is the length of a UUID as clouds write it.
const dashed = 36

// NewCommand returns the command.
func NewCommand(c *console.Console) *cobra.Command {
	o := orphans.Options{Poll: orphans.DefaultPoll}
	cmd := &cobra.Command{
		Use:   "remove-orphans ID...",
		Short: "Remove cloud objects whose Service is gone, each by its ID",
		Example: "  transplant check --cloud=openstack                          # LB-009 lists them\n" +
			"  transplant remove-orphans --cloud=openstack 7d5f2c1e-3b1a-4f6e-9d2c-0a1b2c3d4e5f --dry-run\n" +
			"  transplant remove-orphans --cloud=openstack:cluster=NAME 7d5f2c1e-3b1a-4f6e-9d2c-0a1b2c3d4e5f --yes",
		Long: "Remove-orphans removes load balancers that a manager left behind, with their port, the floating IP that a manager made for them, and their security\n" +
			"groups. Floating IPs and security groups that are left alone can be named, too. Each is looked at again right before: its Service must be gone, no other\n" +
			"Service may use it, and its members must be servers of this cluster. What goes and what stays is shown first. Nothing is removed while one of the objects\n" +
			"is refused. It can be run again at any time. OpenStack only.\n\n" +
			"A floating IP is kept unless its description names the Service. The in-tree provider writes no description. To remove such an IP, name its ID, too.",
		Args: func(_ *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return errors.New("name the ID of each object that is to be removed: transplant check --cloud=openstack lists them (LB-009)")
			}
			for i, id := range ids {
				if len(id) != dashed || uuid.Validate(id) != nil { // an in-tree name is a UUID without dashes
					return fmt.Errorf("%q is no ID of a cloud object: give the UUID that LB-009 shows, not a name", id)
				}
				if slices.Contains(ids[:i], id) {
					return fmt.Errorf("%s is named twice", id)
				}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&o.Yes, "yes", false, console.YesUsage)
	fl.BoolVar(&o.DryRun, "dry-run", false, "show what would go, and remove nothing")
	fl.BoolVar(&o.AssumeOwned, "assume-owned", false,
		"the objects are this cluster's also where neither members nor ports say so; what is another's is refused all the same")
	console.PositiveDurationVar(fl, &o.Timeout, "timeout", 5*time.Minute, "how long the cloud may take for all of it")
	output := console.AddFormatFlag(cmd, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if c.Clouds.Cloud == "" {
			return errors.New("give --cloud: it says in which cloud the objects are, and by which credentials it is asked")
		}
		err := console.RefuseFlags(cmd, "no host is reached", "host-access", "host-image", "host-ttl", hostproof.Flag)
		if err != nil {
			return err
		}
		if err := c.Connect(); err != nil {
			return err
		}
		o.IDs = ids
		for i, id := range ids {
			o.IDs[i] = strings.ToLower(id)
		}
		o.Show = func(list v1.OrphanList) {
			c.NameCluster(list.Cluster)
			for _, line := range formatOrphans(list) {
				c.Narrate("%s", line)
			}
		}
		list, err := orphans.Remove(cmd.Context(), c.Client, o)
		if len(list.Orphans) == 0 || exitcode.Of(err) == exitcode.NotApproved {
			return err // nothing was done, and what was found is on standard error
		}
		return errors.Join(output.Print(c.Out, list, map[string]func() error{"text": func() error {
			_, err := visible.Fprintf(c.Out, "%s\n", visible.Own(strings.Join(formatOrphans(list),
				"\n"))) // each line is set by itself
			return err
		}}), err)
	}
	return cmd
}

// formatOrphans are a list for a person to read: an object, and below it what goes with it and what stays.
func formatOrphans(list v1.OrphanList) (out []string) {
	add := func(format string, args ...any) {
		var b strings.Builder
		_, _ = visible.Fprintf(&b, format, args...) // a Builder takes all
		out = append(out, b.String())
	}
	words := map[v1.OrphanState]string{
		v1.OrphanFound: "can be removed", v1.OrphanRefused: "refused", v1.OrphanPending: "not removed yet",
		v1.OrphanRemoved: "removed", v1.OrphanMissing: "not there",
	}
	for _, o := range list.Orphans {
		add("%s: %s%s", describeObject(o.Kind, o.Name, o.ID), words[o.State], reason(o.Reason))
		if o.Service != "" {
			add("    of     Service %s", o.Service)
		}
		for _, part := range o.Goes {
			if part.ID != o.ID {
				add("    goes   %s", describeObject(part.Kind, part.Name, part.ID))
			}
		}
		for _, part := range o.Stays {
			add("    stays  %s%s", describeObject(part.Kind, part.Name, part.ID), reason(part.Reason))
		}
	}
	return out
}

func reason(of string) string {
	if of == "" {
		return ""
	}
	return ": " + of
}

func describeObject(kind, name, id string) string {
	if name == "" {
		return strings.TrimSpace(kind + " " + id)
	}
	return fmt.Sprintf("%s %s (%s)", kind, name, id)
}
