package precondition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// kubeletFilesHold says in a sentence which files of a kubelet's unit came and went; empty when they are those that the
// plan saw.
func kubeletFilesHold(ctx context.Context, e *step.Env, host, want string) (string, error) {
	if journal.IsExcluded(e.Journal.Doc(), host) {
		return "", nil
	}
	h, err := e.Host(host)
	if err != nil {
		return "", err
	}
	var have []string
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, h), "kubelet.service")
	switch {
	case err == nil:
		have = u.Paths()
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	default:
		for _, at := range kubeletfile.KubeletFlagFiles {
			if _, sum, err := e.ReadFile(ctx, host, at); err != nil {
				return "", err
			} else if sum != step.Absent {
				have = append(have, at)
			}
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	if strings.Join(have, " ") == want {
		return "", nil
	}
	return fmt.Sprintf(
		"the files that start the kubelet on host %s are others by now%s",
		host,
		compare(strings.Fields(want), have),
	), nil
}
