package hostedrun

import (
	"maps"
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/status"
)

// TestWhatManagersSayOfLoopsHasACode: leases alone show neither a second owner nor a leader that runs nothing.
func TestWhatManagersSayOfLoopsHasACode(t *testing.T) {
	asked := []v1.Manager{{Component: component.KCM}}
	inTree, none := hosted.Owner{Component: component.KCM, Pod: "a"}, hosted.Owner{}
	twice := hosted.Owner{Component: component.KCM, Pod: "a", Also: []string{component.CCM + "/b"}}
	for name, c := range map[string]struct {
		found  hosted.Owners
		phase  string
		owners map[string]string
		want   []v1.BlockerCode
	}{
		"one owner": {
			hosted.Owners{Managers: asked, Loops: map[string]hosted.Owner{"service": inTree}}, v1.RunApplied,
			map[string]string{"service": component.KCM + "@a"}, nil,
		},
		"two owners": {
			hosted.Owners{Managers: asked, Loops: map[string]hosted.Owner{"service": twice}}, v1.RunApplied,
			map[string]string{"service": component.KCM + "@a"}, []v1.BlockerCode{v1.BlockerTwoOwners},
		},
		"no owner at the end": {
			hosted.Owners{Managers: asked, Loops: map[string]hosted.Owner{"service": none}}, v1.RunApplied,
			map[string]string{"service": status.NoOwner}, []v1.BlockerCode{v1.BlockerLoopWithoutOwner},
		},
		"no owner before the run": {
			hosted.Owners{Managers: asked, Loops: map[string]hosted.Owner{"service": none}}, "",
			map[string]string{"service": status.NoOwner}, nil,
		},
		"a manager that does not answer": {
			hosted.Owners{Managers: asked, Loops: map[string]hosted.Owner{"service": none}, Unknown: []string{"no answer"}}, v1.RunApplied, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := newAnswers()
			said.addOwners(c.found)
			f := status.Facts{Owners: said.owners, OwnersFrom: said.ownersFrom, Health: said.health}
			if c.phase != "" {
				f.Journal = &v1.Journal{Phase: c.phase}
			}
			s := status.Judge(f)
			var codes []v1.BlockerCode
			for _, b := range s.Health {
				codes = append(codes, b.Code)
			}
			if !maps.Equal(s.Owners, c.owners) || !slices.Equal(codes, c.want) {
				t.Errorf("owners %v, codes %v; want %v, %v", s.Owners, codes, c.owners, c.want)
			}
		})
	}
}
