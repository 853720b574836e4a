package service

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// balancer is what this process knows of one Service's load balancer. It is passed by value; what it points to is never changed.
type balancer struct {
	uid     types.UID
	service *corev1.Service // as it was last acted upon: what is left to delete by when the Service is gone

	spec      string // fingerprint that the cloud was last made to follow; empty when it is not known to follow any
	members   *memberSet
	elsewhere bool // the provider says that somebody else implements it

	status  *corev1.LoadBalancerStatus // what the provider last said
	stored  *corev1.LoadBalancerStatus // what the API server made of it; nil while it has not been written
	version string                     // resource version of the Service with that status
	seen    *corev1.LoadBalancerStatus // the provider's last answer to a check
	// notFound is how often in a row a check has not found the load balancer and ensuring it has changed nothing.
	notFound int

	tried    bool // ensuring it has begun in this process
	cleaning bool // deleting has begun
	gone     bool // the Service is gone and its load balancer was left alone, see judge

	check, resync time.Time // when the next is due; zero for never

	repairs  int // of the status, in a row
	repaired time.Time
}

// inLine is whether the load balancer is known to be what its Service asked for when it was last looked at.
func (b balancer) inLine() bool { return b.gone || b.spec != "" && (b.stored != nil || b.elsewhere) }

// book is what this process knows of all load balancers, by the keys of their Services. Only the one worker that has a key changes its page.
type book struct {
	mu      sync.Mutex
	pages   map[string]balancer
	pending int
}

func newBook() *book { return &book{pages: map[string]balancer{}} }

func (k *book) get(key string) (balancer, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.pages[key]
	return b, ok
}

func (k *book) put(key string, b balancer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(key, -1)
	k.pages[key] = b
	k.count(key, 1)
}

func (k *book) drop(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(key, -1)
	delete(k.pages, key)
}

func (k *book) count(key string, by int) {
	if b, ok := k.pages[key]; ok && !b.inLine() {
		k.pending += by
		pendingServices.Set(float64(k.pending))
	}
}

// lacking returns the keys of load balancers that are in line but for their members.
func (k *book) lacking(v *view) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for key, b := range k.pages {
		if b.spec != "" && !b.elsewhere && !b.gone && v.lacks(b.members) {
			keys = append(keys, key)
		}
	}
	return keys
}
