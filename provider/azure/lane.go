package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient"
	upstream "sigs.k8s.io/cloud-provider-azure/pkg/provider"
	upstreamconfig "sigs.k8s.io/cloud-provider-azure/pkg/provider/config"

	"github.com/transplant-dev/transplant/provider/azure/client"
	"github.com/transplant-dev/transplant/provider/transport"
)

// lane is upstream's provider. Its calls go one after the other. It serialises most of them itself, and each of its
// requests has to be known as one of a controller's call.
type lane struct {
	conf  *upstreamconfig.Config
	bound *transport.Binding
	turn  chan struct{} // holds one value while a call is made

	mu       sync.Mutex
	clients  cloudprovider.ControllerClientBuilder // nil before Initialize
	nodes    corelisters.NodeLister                // nil before SetInformers
	services corelisters.ServiceLister

	// these are the call's that has the turn
	made    *upstream.Cloud // nil before the first call
	cluster *cluster
}

func newLane(reach *client.Client, conf *upstreamconfig.Config) *lane {
	return &lane{conf: conf, bound: reach.Bind(), turn: make(chan struct{}, 1)}
}

func (l *lane) initialize(clients cloudprovider.ControllerClientBuilder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = clients
}

func (l *lane) useListers(nodes corelisters.NodeLister, services corelisters.ServiceLister) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes, l.services = nodes, services
}

// callTimeout bounds a call of upstream's provider. The service controller calls again, and the call goes on from where
// it was.
const callTimeout = 10 * time.Minute

// about is what a call is about, for upstream's caches.
type about struct {
	service *corev1.Service
	nodes   []*corev1.Node
	isGone  bool // the Service is, once the call has succeeded
}

// call calls upstream's provider. Requests of the call end with its context and carry its fence.
func (l *lane) call(
	ctx context.Context,
	of about,
	do func(context.Context, *upstream.Cloud) error,
) (made *transport.Call, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another call of the load balancers' provider to end: %w", context.Cause(ctx))
	}
	defer func() { <-l.turn }()
	call := transport.NewCall(ctx)
	l.bound.Use(call)
	defer l.bound.Use(nil)
	if err := l.open(ctx); err != nil {
		return call, err
	}
	l.mu.Lock()
	nodes, services := l.nodes, l.services
	l.mu.Unlock()
	if err := l.cluster.know(l.made, of, nodes, services); err != nil {
		return call, err
	}
	err = call.Correct(do(ctx, l.made))
	if err == nil && of.isGone {
		l.cluster.forget(of.service)
	}
	return call, err
}

// transportMu is held while upstream's package variable is ours.
var transportMu sync.Mutex

// open makes upstream's provider, whose requests go over our transport. With the last argument false, it starts no
// goroutine and asks Azure for nothing.
func (l *lane) open(ctx context.Context) error {
	if l.made != nil {
		return nil
	}
	l.mu.Lock()
	clients := l.clients
	l.mu.Unlock()
	if clients == nil {
		return errors.New("the load balancers' provider is not started yet")
	}
	transportMu.Lock()
	defer transportMu.Unlock()
	before := azclient.DefaultResourceClientTransport
	azclient.DefaultResourceClientTransport = &http.Client{Transport: l.bound}
	defer func() { azclient.DefaultResourceClientTransport = before }()
	conf := *l.conf // upstream sets its defaults in it
	opened, err := upstream.NewCloud(ctx, nil, &conf, false)
	if err != nil {
		return fmt.Errorf("making the load balancers' provider: %w", err)
	}
	made, ok := opened.(*upstream.Cloud)
	if !ok {
		return fmt.Errorf("making the load balancers' provider: it is a %T", opened)
	}
	kube := &leaseless{Interface: clients.ClientOrDie("azure-cloud-provider")}
	made.KubeClient = kube
	made.Initialize(clients, nil)
	l.cluster = newCluster(kube)
	made.SetInformers(l.cluster)
	l.made = made
	return nil
}
