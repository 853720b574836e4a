package hostedrun

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/plan/layout"
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

// TestAnOwnerThatDoesNotSayItIsKnownByItsLease, as the operator says it.
func TestAnOwnerThatDoesNotSayItIsKnownByItsLease(t *testing.T) {
	said := newAnswers()
	said.addOwners(hosted.Owners{
		Managers: []v1.Manager{{Component: component.CCM}},
		Loops: map[string]hosted.Owner{
			"service": {Component: component.CCM, Pod: "a", ByLease: true}, "route": {Component: component.CCM, Pod: "b"}, "cloud-node-lifecycle": {},
		},
	})
	s := status.Judge(status.Facts{Owners: said.owners, OwnersFrom: said.ownersFrom, Journal: &v1.Journal{Phase: v1.RunApplied}})
	want := map[string]string{"service": status.ByLeaseAndFlags, "route": status.FromGauges, "cloud-node-lifecycle": status.FromGauges}
	if !maps.Equal(s.OwnersFrom, want) {
		t.Errorf("%v, want %v", s.OwnersFrom, want)
	}
	if len(s.Health) != 1 || s.Health[0].Message != "no manager says that it runs cloud-node-lifecycle" {
		t.Errorf("%+v", s.Health)
	}
}

// TestATokenIsReadAgain: a watch goes on when it was renewed.
func TestATokenIsReadAgain(t *testing.T) {
	server := apitest.New(t)
	kube, dyn := server.Clients(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	put := func(left time.Duration) {
		claims := fmt.Sprintf(`{"iss":"x","exp":%d,"sub":"system:serviceaccount:kube-system:cloud-controller-manager"}`, now.Add(left).Unix())
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".e30"
		server.Put(t, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: layout.SeedKubeconfig}, Data: map[string][]byte{layout.SeedTokenKey: []byte(token)},
		})
	}
	both := hosted.Clients{Kube: kube, Dynamic: dyn}
	m := &Migration{
		Plane: &hosted.Plane{Namespace: "cluster-x", Seed: both, User: both}, Part: hosted.Handover,
		Now: func() time.Time { return now },
	}
	b := m.NewBoard(t.Context(), m.Plane)
	warns := func() bool {
		b.askManagers(t.Context())
		return slices.ContainsFunc(b.Status().Health, func(found v1.Blocker) bool { return found.Code == v1.BlockerTokenExpires })
	}
	put(time.Hour)
	if !warns() {
		t.Fatalf("a token of an hour: %+v", b.Status())
	}
	put(365 * 24 * time.Hour)
	now = now.Add(tokenPeriod - time.Second)
	if !warns() {
		t.Error("it is read all the time")
	}
	now = now.Add(time.Second)
	if warns() {
		t.Errorf("it was renewed a minute ago: %+v", b.Status().Health)
	}
}
