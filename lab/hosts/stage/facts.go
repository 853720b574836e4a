package stage

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/transplant-dev/transplant/lab/trial"
)

// configured lists the files of a host that a migration may change, and a rollback must put back; backups are left
// behind on purpose.
const configured = `find /etc/kubernetes /etc/systemd /etc/default /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /usr/local/lib ` +
	`-path /etc/kubernetes/transplant -prune -o -type f -printf '%m %u:%g ' -exec sha256sum {} \; 2>/dev/null; true`

// Facts describes everything that a migration and its rollback must leave as it was, a line each, sorted: files of the
// hosts, objects and the cloud.
func (s *Stage) Facts(ctx context.Context) ([]string, error) {
	out, err := trial.Objects(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	for _, h := range s.Hosts() {
		if !h.Running() {
			continue
		}
		text, err := h.Output(ctx, "sh", "-c", configured)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			out = append(out, "file "+h.Name+" "+strings.TrimSpace(line))
		}
	}
	state, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, "cloud "+state)
	sort.Strings(out)
	return out, nil
}

// Check judges by what only the lab knows: the cloud is as it was, and nobody asked it for something that it does not
// know.
func (s *Stage) Check(ctx context.Context, before string) error {
	after, err := s.State(ctx)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the cloud is not as it was:\n%s", trial.FirstDifference(before, after))
	}
	unknown, err := s.admin(ctx, "unknown")
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(string(unknown)); text != "null" && text != "[]" {
		return fmt.Errorf("the simulated cloud was asked for what it does not know: %s", text)
	}
	return nil
}
