package service

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// operation is what a load balancer needs.
type operation int

const (
	opNone    operation = iota
	opBury              // its Service is gone, and it stays; see judge
	opDelete            // its Service is gone, and it was being made or deleted
	opReplace           // its Service was deleted and made again by the same name: it goes, and another comes
	opCleanup           // its Service wants it no more
	opEnsure            // it must follow its Service
	opUpdate            // its members have changed, and nothing else
	opStatus            // its Service's status is not what was written
	opResync            // it is ensured without a reason, to find what was changed in the cloud
	opCheck             // it is looked at
)

// facts are what judge looks at.
type facts struct {
	service *corev1.Service // nil when it is gone
	known   bool            // whether there is a page
	page    balancer
	view    *view
	now     time.Time
}

// judge decides what the load balancer of one Service needs.
//
// A Service that goes without deleting having begun had lost our finalizer before: somebody wants to keep the load balancer, and upstream does. One
// that is being deleted and has no finalizer of ours is left alone for the same reason. What is half made goes, as it does upstream.
func judge(f facts) operation {
	switch {
	case f.service == nil:
		return judgeGone(f)
	case f.known && f.page.uid != f.service.UID:
		return opReplace
	case needsCleanup(f.service), !wantsLoadBalancer(f.service) && f.known:
		return opCleanup
	case !wantsLoadBalancer(f.service), f.service.DeletionTimestamp != nil:
		return opNone
	}
	return judgeWanted(f)
}

func judgeGone(f facts) operation {
	switch {
	case !f.known, f.page.gone:
		return opNone
	case f.page.cleaning, f.page.tried && !f.page.inLine(): // what it has in the cloud is not what anybody wants to keep
		return opDelete
	}
	return opBury
}

func judgeWanted(f facts) operation {
	page := f.page
	switch {
	case page.spec != specPrint(f.service) || page.cleaning || page.gone: // a page that is not known has no fingerprint
		return opEnsure
	case page.elsewhere:
		return opNone
	case f.view.lacks(page.members):
		return opUpdate
	case page.stored == nil, deviates(f.service, page):
		return opStatus
	case isDue(page.resync, f.now):
		return opResync
	case isDue(page.check, f.now):
		return opCheck
	}
	return opNone
}

// deviates is whether a Service's status is not what this process wrote. A cache that has not seen the write yet shows nothing.
func deviates(service *corev1.Service, page balancer) bool {
	return page.stored != nil && !older(service.ResourceVersion, page.version) && !sameStatus(&service.Status.LoadBalancer, page.stored)
}

// relevant is whether a changed Service is worth looking at. Others must not be: a look at one that failed would not wait for its back-off.
func relevant(before, now *corev1.Service, known bool, page balancer) bool {
	return before.UID != now.UID ||
		needsUpdate(before, now) ||
		needsCleanup(now) && !needsCleanup(before) ||
		known && page.spec != "" && !page.elsewhere && wantsLoadBalancer(now) && deviates(now, page)
}

// repairDelay is how long a status that somebody else changes again and again is left alone: two writers that do not agree must not keep the API
// server busy. The first repair does not wait.
func repairDelay(repairs int) time.Duration {
	if repairs == 0 {
		return 0
	}
	return min(minRetryDelay<<min(repairs-1, 10), maxRetryDelay)
}

// older is whether a resource version comes before another. What cannot be compared does not.
func older(version, than string) bool {
	a, b := parseVersion(version), parseVersion(than)
	return a != 0 && b != 0 && a < b
}
