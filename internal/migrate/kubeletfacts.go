package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

// kubeletFilesHold says in a sentence which files of a kubelet's unit came and went; empty when they are those that the plan saw.
func (e *Engine) kubeletFilesHold(ctx context.Context, host, want string) (string, error) {
	if isOut(e.journal.Doc(), host) {
		return "", nil
	}
	h, err := e.host(host)
	if err != nil {
		return "", err
	}
	var have []string
	u, err := controlplane.ReadUnit(hostaccess.Reading(ctx, h), "kubelet.service")
	switch {
	case err == nil:
		have = u.Paths()
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	default:
		for _, at := range controlplane.KubeletFlagFiles {
			if _, sum, err := e.read(ctx, host, at); err != nil {
				return "", err
			} else if sum != absent {
				have = append(have, at)
			}
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	if strings.Join(have, " ") == want {
		return "", nil
	}
	return fmt.Sprintf("the files that start the kubelet on host %s are others by now%s", host, compare(strings.Fields(want), have)), nil
}
