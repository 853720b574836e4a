package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/ownership"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/permission"
)

// connection is what the global flags say, and what was opened from them.
type connection struct {
	streams
	kubeconfig, context, cloud, stateDir string
	host                                 hostFlags
	quiet, ascii                         bool
	color                                format
	// called is the name of this program, given the global flags.
	called string
	given  *pflag.FlagSet

	config  *rest.Config
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	hosts   []hostaccess.Host
	// pods tells that hosts are reached through pods, which takes rights of its own, and that they are Nodes.
	pods    bool
	session hostSession
	inv     inventory.Source
	proof   proof
	probes  probeFlags
	// traffic is every request to the API, and what its answers say of the time.
	traffic collect.Traffic

	// publish shows how a run goes on the lock while it is held, progress what is shown.
	publish  func(string)
	progress *lock.Progress
	// extend has the lock last longer while it is held.
	extend func(context.Context, time.Duration) (func(), error)

	mu       sync.Mutex
	token    string
	tokenEnd time.Time
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, then ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "context of the kubeconfig")
	c.host.flags(f)
	f.StringVar(&c.cloud, "cloud", "", "also look at the cloud, read-only, with the credentials of the environment: aws or aws:routeTable=rtb-...")
	f.StringVar(&c.stateDir, "state-dir", "", "where ownership logs are kept (default: $XDG_STATE_HOME/transplant or ~/.local/state/transplant)")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no narration on standard error")
	c.colorFlag(f)
	f.BoolVar(&c.ascii, "ascii", false, "marks of plain letters: ok warn FAIL skip ????")
}

// spoken are global flags that only say how the answer looks.
var spoken = []string{"quiet", "color", "ascii"}

// command is another command for the same cluster, as a person types it: with the global flags that this one was given, since none of them is kept anywhere.
func (c *connection) command(args ...string) string {
	words := append([]string{c.called}, args...)
	if c.given != nil {
		c.given.VisitAll(func(f *pflag.Flag) {
			if f.Changed && !slices.Contains(spoken, f.Name) {
				words = append(words, "--"+f.Name+"="+quotedWord(f.Value.String()))
			}
		})
	}
	return strings.Join(words, " ")
}

// plainWord is what a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quotedWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// connect connects to the cluster's API, and to nothing else.
func (c *connection) connect() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w\nname one with --kubeconfig, and a context in it with --context", err)
	}
	if raw, err := loader.RawConfig(); err == nil && c.context == "" {
		c.context = raw.CurrentContext
	}
	cfg.UserAgent = "transplant/" + version
	cfg.QPS, cfg.Burst = 50, 100
	cfg.Timeout = 15 * time.Second
	c.traffic.Watch(cfg)
	c.config = cfg
	if c.kube, err = kubernetes.NewForConfig(cfg); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return fmt.Errorf("using the kubeconfig: %w", err)
	}
	if _, err := c.kube.Discovery().ServerVersion(); err != nil {
		return fmt.Errorf("reaching the API server %s (context %q): %w", cfg.Host, c.context, err)
	}
	return nil
}

// open connects to the cluster, the hosts and the cloud.
func (c *connection) open(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	return c.openRest(ctx)
}

// openRest connects to the cloud and the hosts, once the cluster's API was reached.
func (c *connection) openRest(ctx context.Context) (err error) {
	if c.cloud != "" {
		if c.inv, err = inventory.Open(ctx, c.cloud); err != nil {
			return fmt.Errorf("--cloud: %w", err)
		}
	}
	return c.openHosts(ctx) // last: what is wrong with the rest is said before a pod is made
}

func (c *connection) narrate(format string, args ...any) {
	if !c.quiet {
		fmt.Fprintln(c.err, layout{ascii: c.ascii}.plain(mask.Text(fmt.Sprintf(format, args...))))
	}
}

// header names the cluster before anything is said about it.
func (c *connection) header(cl v1.Cluster) {
	c.narrate("cluster %s (uid %s) · %s · %s · context %s", orDash(cl.Name), short(cl.UID), orDash(cl.Version), orDash(cl.Server), orDash(cl.Context))
}

// gather looks at everything once.
func (c *connection) gather(ctx context.Context, o v1.Options) *v1.Snapshot {
	return snapshot.Gather(ctx, collect.Sources{
		Kube: c.kube, Dynamic: c.dynamic, Traffic: &c.traffic, Hosts: c.hosts, HostsAreNodes: c.pods, Cloud: c.inv, Context: c.context, Server: c.config.Host, ToolVersion: version, Now: time.Now,
		Scrape: func(ctx context.Context, component, host, address string) v1.Manager {
			m, err := c.scrape(ctx, component, host, address)
			if err != nil {
				m.Error = mask.Error(err)
			}
			m.Component, m.Host, m.Address = component, host, address
			return m
		},
	}, collect.Options{LeaseName: cmp.Or(o.LeaseName, planlayout.DefaultLease), Files: slices.Concat(planlayout.Files(), planlayout.EnvFiles(o)), TokenFile: planlayout.CCMToken, ObjectRefs: planlayout.ObjectRefs(), Needs: c.needs(permission.DefaultNeeds), AskCredentialProviders: c.proof.asked})
}

// scrape asks a manager for its gauges: with the token of an account that may read /metrics and nothing else, or, before that account exists, with
// the kubeconfig's client certificate, which proves who asks without handing over anything that could be used again. A bearer token of the
// operator's is never sent to a manager: its certificate is self-signed, so who answers is not known.
func (c *connection) scrape(ctx context.Context, component, host, address string) (m v1.Manager, err error) {
	err = c.asked(ctx, component, host, func(ctx context.Context, client *http.Client, token string) error {
		m, err = ownership.Scrape(ctx, client, address, token)
		return err
	})
	return m, err
}

// asked lets ask talk to a component on a host for at most 5 s, with the credentials that scrape describes.
func (c *connection) asked(ctx context.Context, component, host string, ask func(context.Context, *http.Client, string) error) error {
	transport := c.transport(host)
	defer transport.CloseIdleConnections()
	token, err := c.observerToken(ctx)
	if err != nil {
		cert, certErr := clientCertificate(c.config)
		if certErr != nil {
			return fmt.Errorf("no credentials for %s on %s: %w; and %w", component, host, err, certErr)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{cert}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return ask(ctx, &http.Client{Transport: transport}, token)
}

func clientCertificate(cfg *rest.Config) (tls.Certificate, error) {
	t, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return tls.Certificate{}, err
	}
	if t == nil || len(t.Certificates) == 0 && t.GetClientCertificate == nil {
		return tls.Certificate{}, fmt.Errorf("the kubeconfig has no client certificate")
	}
	if len(t.Certificates) > 0 {
		return t.Certificates[0], nil
	}
	cert, err := t.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return tls.Certificate{}, err
	}
	return *cert, nil
}

// observerToken asks for a token of an hour for the account that may read /metrics, and keeps it until it is half spent.
func (c *connection) observerToken(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.tokenEnd) {
		return c.token, nil
	}
	// Asked first, so that a command that only looks sends no create before a migration has begun.
	if _, err := c.kube.CoreV1().ServiceAccounts(planlayout.Namespace).Get(ctx, planlayout.Observer, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ServiceAccount %s/%s is not there yet (apply makes it)", planlayout.Namespace, planlayout.Observer)
	} else if err != nil {
		return "", fmt.Errorf("reading ServiceAccount %s/%s: %w", planlayout.Namespace, planlayout.Observer, err)
	}
	t, err := c.kube.CoreV1().ServiceAccounts(planlayout.Namespace).CreateToken(ctx, planlayout.Observer,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", planlayout.Namespace, planlayout.Observer, err)
	}
	c.token, c.tokenEnd = t.Status.Token, time.Now().Add(30*time.Minute)
	return c.token, nil
}

// nodeNames maps hosts to their nodes.
func nodeNames(s *v1.Snapshot) map[string]string {
	out := map[string]string{}
	for _, h := range s.Hosts {
		out[h.Name] = h.NodeName
	}
	return out
}

// hostsOfNodes maps nodes to their hosts, which may be called as their nodes.
func hostsOfNodes(hosts []hostaccess.Host, s *v1.Snapshot) map[string]hostaccess.Host {
	names := map[string]string{}
	if s != nil {
		names = nodeNames(s)
	}
	out := map[string]hostaccess.Host{}
	for _, h := range hosts {
		out[cmp.Or(names[h.Name()], h.Name())] = h
	}
	return out
}
