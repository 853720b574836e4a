package service

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestWhatALoadBalancerNeeds(t *testing.T) {
	v, _ := buildView([]*corev1.Node{node("n1")}, nil)
	other, _ := buildView([]*corev1.Node{node("n1"), node("n2")}, nil)
	at := func(version string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.ResourceVersion = version }
	}
	web := func(changes ...func(*corev1.Service)) *corev1.Service {
		s := service("web", withUID("uid"), withFinalizer, withAddress("192.0.2.1"), at("7"))
		for _, change := range changes {
			change(s)
		}
		return s
	}
	lb := func(changes ...func(*lbState)) *lbState {
		b := &lbState{uid: "uid", service: web(), spec: specPrint(web()), members: v.set, tried: true, version: "7",
			status: ptr.To(statusOf("192.0.2.1")), stored: ptr.To(statusOf("192.0.2.1")), check: noon.Add(time.Minute), resync: noon.Add(time.Hour)}
		for _, change := range changes {
			change(b)
		}
		return b
	}
	for _, tc := range []struct {
		name    string
		service *corev1.Service
		lb      *lbState // nil when nothing is known
		view    *view
		want    operation
	}{
		{"nothing, when there is nothing", nil, nil, v, opNone},
		{"nothing, when all is as it should be", web(), lb(), v, opNone},
		{"to be made, when nothing is known", web(), nil, v, opEnsure},
		{"to be made, when making it failed", web(), lb(func(b *lbState) { b.spec = "" }), v, opEnsure},
		{"to follow its Service", web(withPort(81)), lb(), v, opEnsure},
		{"to follow its Service and no update, when both have changed", web(withPort(81)), lb(), other, opEnsure},
		{"to be made again, when its Service wants it after all", web(), lb(func(b *lbState) { b.spec, b.cleaning = "", true }), v, opEnsure},
		{"other members", web(), lb(), other, opUpdate},
		{"other members before anything that can wait", web(), lb(func(b *lbState) { b.check = noon }), other, opUpdate},
		{"its status written, when that failed", web(), lb(func(b *lbState) { b.stored = nil }), v, opStatus},
		{"its status repaired", web(withAddress("198.51.100.1"), at("8")), lb(), v, opStatus},
		{"nothing, when the cache has not seen the status yet", web(withAddress(""), at("6")), lb(), v, opNone},
		{"its status repaired, when versions cannot be compared", web(withAddress("198.51.100.1"), at("x")), lb(), v, opStatus},
		{"a look, when it is time", web(), lb(func(b *lbState) { b.check = noon }), v, opCheck},
		{"to be ensured, when it is time for both", web(), lb(func(b *lbState) { b.check, b.resync = noon, noon }), v, opResync},
		{"nothing ever, when that is turned off", web(), lb(func(b *lbState) { b.check, b.resync = time.Time{}, time.Time{} }), v, opNone},
		{"nothing, when somebody else implements it", web(withAddress("198.51.100.1")),
			lb(func(b *lbState) { b.implementedElsewhere, b.stored, b.check = true, nil, noon }), other, opNone},
		{"to go, when its Service is being deleted", web(beingDeleted), lb(), v, opCleanup},
		{"to go, when its Service is being deleted, though nothing is known", web(beingDeleted), nil, v, opCleanup},
		{"to go, when its Service is of another type", web(withType(corev1.ServiceTypeNodePort)), lb(), v, opCleanup},
		{"to go, when its Service lost the finalizer before its type", service("web", withUID("uid"), withType(corev1.ServiceTypeNodePort)), lb(), v, opCleanup},
		{"nothing, when its Service never wanted one", service("web", withUID("uid"), withType(corev1.ServiceTypeNodePort)), nil, v, opNone},
		{"nothing, when its Service is being deleted without our finalizer", service("web", withUID("uid"), beingDeleted), lb(), v, opNone},
		{"to be replaced, when its Service is another", web(withUID("other")), lb(), v, opReplace},
		{"to be forgotten, when its Service went without it", nil, lb(), v, opOrphan},
		{"nothing more, when it is forgotten", nil, lb(func(b *lbState) { b.gone = true }), v, opNone},
		{"to be deleted, when its Service went in the middle of it", nil, lb(func(b *lbState) { b.cleaning, b.spec = true, "" }), v, opDelete},
		{"to be deleted, when its Service went while it was made", nil, lb(func(b *lbState) { b.spec = "" }), v, opDelete},
		{"to be forgotten, when its Service went before it was made", nil, lb(func(b *lbState) { b.spec, b.tried = "", false }), v, opOrphan},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := facts{service: tc.service, view: tc.view, now: noon}
			if tc.lb != nil {
				f.known, f.lb = true, *tc.lb
			}
			if got := chooseOperation(f); got != tc.want {
				t.Errorf("operation %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRepairsOfAStatusBackOff(t *testing.T) {
	for repairs, want := range map[int]time.Duration{
		0: 0, 1: 5 * time.Second, 2: 10 * time.Second, 6: 160 * time.Second, 7: 300 * time.Second, 1000: 300 * time.Second,
	} {
		if got := repairDelay(repairs); got != want {
			t.Errorf("after %d repairs: %s, want %s", repairs, got, want)
		}
	}
}
