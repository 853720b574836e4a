package web

import (
	"context"
	"net/http"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/roster"
	"github.com/transplant-dev/transplant/internal/fleet/view"
	"github.com/transplant-dev/transplant/internal/together"
)

// fleet answers with the clusters that the user may see.
func (s *server) fleet(w http.ResponseWriter, r *http.Request, p *person) {
	status, err := s.seen(r.Context(), p)
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.write(w, http.StatusOK, status)
}

// seen is the fleet as the user may see it. Of each API group these are all Clusters if the user may list them, else
// those that the user may get.
func (s *server) seen(ctx context.Context, p *person) (v1.FleetStatus, error) {
	objects, complete := s.Clusters.List()
	all, err := s.lists(ctx, p)
	if err != nil {
		return v1.FleetStatus{}, err
	}
	rows := s.rows.Rows(objects)
	allowed, err := s.allowed(ctx, p, rows, all)
	if err != nil {
		return v1.FleetStatus{}, err
	}
	shown := make([]v1.FleetCluster, 0, len(rows))
	for i, row := range rows {
		if allowed[i] {
			shown = append(shown, row)
		}
	}
	if len(shown) == 0 && len(all) == 0 {
		return v1.FleetStatus{}, &refusal{
			http.StatusForbidden,
			"you may neither list clusters of this seed nor get any one of them",
		}
	}
	out := v1.FleetStatus{
		TypeMeta: v1.Type(v1.KindFleetStatus),
		Time:     s.now(),
		Seed:     s.Seed,
		Summary:  view.Summary(shown),
		Clusters: shown,
	}
	out.Progress = view.Progress(shown, out.Time)
	if len(all) < len(roster.Groups()) { // waves count clusters that the user may not see
		out.Progress.Rollouts = nil
	}
	if !complete {
		out.NotRead = append(out.NotRead, "the operator has not read all clusters yet")
	}
	return out, nil
}

// Overall is what the page shows of the whole fleet, in the words of the command line.
type Overall struct {
	v1.FleetProgress
	Sentence string `json:"sentence"`
	// Waves are the waves of all rollouts, the rollout in front where there are several.
	Waves []Wave `json:"waves,omitempty"`
}

// Wave is a wave in words.
type Wave struct {
	State string `json:"state"`
	Text  string `json:"text"`
}

func overallOf(s v1.FleetStatus) Overall {
	out := Overall{FleetProgress: s.Progress, Sentence: view.ProgressSentence(s.Progress)}
	for _, r := range s.Progress.Rollouts {
		before := ""
		if len(s.Progress.Rollouts) > 1 {
			before = "rollout " + r.ID + ", "
		}
		for _, w := range r.Waves {
			out.Waves = append(out.Waves, Wave{State: w.State, Text: before + view.WaveSentence(w, len(r.Waves))})
		}
	}
	return out
}

// lists are the groups whose Clusters the user may list.
func (s *server) lists(ctx context.Context, p *person) (map[string]bool, error) {
	all := map[string]bool{}
	for _, group := range roster.Groups() {
		yes, err := s.auth.may(ctx, p, "list", view.Key{Group: group})
		if err != nil {
			return nil, err
		}
		if yes {
			all[group] = true
		}
	}
	return all, nil
}

// allowed reports of each row whether the user may see it.
func (s *server) allowed(ctx context.Context, p *person, rows []v1.FleetCluster, all map[string]bool) ([]bool, error) {
	out := make([]bool, len(rows))
	var wg together.Group
	var mu sync.Mutex
	var failed error
	places := make(chan struct{}, questions)
	for i, row := range rows {
		if all[row.Group] {
			out[i] = true
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			yes, err := s.auth.may(ctx, p, "get", view.Key{Group: row.Group, Name: row.Name})
			mu.Lock()
			defer mu.Unlock()
			if out[i] = yes; err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return out, failed
}
