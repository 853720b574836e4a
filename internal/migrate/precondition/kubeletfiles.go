package precondition

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// kubeletFilesHold returns which files of a kubelet's unit came and went; nil when they are those that the plan
// saw.
func kubeletFilesHold(ctx context.Context, e *step.Env, host, want string) (*v1.ChangedFact, error) {
	if journal.IsExcluded(e.Journal.Doc(), host) {
		return nil, nil
	}
	h, err := e.Host(host)
	if err != nil {
		return nil, err
	}
	var have []string
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, h), "kubelet.service")
	switch {
	case err == nil:
		have = u.Paths()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		for _, at := range kubeletfile.KubeletFlagFiles {
			if _, sum, err := e.ReadFile(ctx, host, at); err != nil {
				return nil, err
			} else if sum != step.Absent {
				have = append(have, at)
			}
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	if strings.Join(have, " ") == want {
		return nil, nil
	}
	c := changedTo(
		"the files that start the kubelet on host %s are others by now%s",
		host,
		compare(strings.Fields(want), have),
	)
	c.Host = host
	return c, nil
}
