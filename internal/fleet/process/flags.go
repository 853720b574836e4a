package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/fleet/certs"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/objectives"
)

// flags are what the process is told.
type flags struct {
	version                         string
	kubeconfig, namespace, identity string

	maxParallel, maxParallelMachines, workers, looks, openClusters int
	lookTimeout, stallAfter                                        time.Duration
	limits                                                         state.Limits
	objectives                                                     string

	lease                                     string
	leaseDuration, renewDeadline, retryPeriod time.Duration
	drain                                     time.Duration

	healthAddress, metricsAddress, webhookAddress, webAddress string
	webhookService, webhookSecret                             string
	webhookCertificate, webhookKey                            string
	webhookConfigurations                                     []string
	webCertificate, webKey                                    string
	enableActions, installCRDs                                bool

	images     map[string]string
	vSphereCSI string
	qps        float32
	burst      int
}

func defaults() *flags {
	return &flags{
		namespace:           ownNamespace(),
		maxParallel:         10,
		maxParallelMachines: 5,
		workers:             4,
		looks:               16,
		openClusters:        64,
		lookTimeout:         30 * time.Second,
		stallAfter:          2 * time.Minute,
		limits:              state.DefaultLimits(),
		objectives:          objectives.FlagPause,
		lease:               "transplant-operator",
		leaseDuration:       15 * time.Second,
		renewDeadline:       10 * time.Second,
		retryPeriod:         2 * time.Second,
		drain:               50 * time.Second,
		healthAddress:       ":8081",
		metricsAddress:      ":8080",
		webhookAddress:      ":9443",
		webhookService:      "transplant-operator-webhooks",
		webhookSecret:       certs.DefaultSecret,
		webhookConfigurations: []string{
			"transplant-operator",
			"transplant-operator-strict",
		},
		images: map[string]string{},
		qps:    50,
		burst:  100,
	}
}

// ownNamespace is that of the pod; what is mounted into every pod says so.
func ownNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	if data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(data))
	}
	return "transplant-system"
}

func (f *flags) addFlags(s *pflag.FlagSet) {
	s.StringVar(
		&f.kubeconfig,
		"kubeconfig",
		f.kubeconfig,
		"file with the way to the seed; empty for the pod's own account",
	)
	s.StringVar(
		&f.namespace,
		"namespace",
		f.namespace,
		"namespace of the operator in the seed: its lease and its certificates are there",
	)
	s.StringVar(
		&f.identity,
		"identity",
		f.identity,
		"name of this process among the replicas; empty for the host's name and a random part",
	)

	s.IntVar(&f.maxParallel, "max-parallel", f.maxParallel, "how many control planes are changed at a time")
	s.IntVar(
		&f.maxParallelMachines,
		"max-parallel-machines",
		f.maxParallelMachines,
		"in how many clusters MachineDeployments are restarted at a time",
	)
	s.IntVar(&f.workers, "workers", f.workers, "how many decisions are made at a time")
	s.IntVar(
		&f.looks,
		"looks",
		f.looks,
		"how many user clusters are looked at at a time; half as many again for those that do not answer",
	)
	s.IntVar(&f.openClusters, "open-clusters", f.openClusters, "to how many user clusters connections are kept open")
	s.DurationVar(&f.lookTimeout, "look-timeout", f.lookTimeout, "how long one look at a cluster may take")
	s.DurationVar(
		&f.stallAfter,
		"stall-after",
		f.stallAfter,
		"how long a run may be without a new step before its place goes to another cluster",
	)

	l := &f.limits
	s.DurationVar(&l.Look, "look-interval", l.Look, "how often a cluster in migration is looked at")
	s.DurationVar(
		&l.Audit,
		"audit-interval",
		l.Audit,
		"how often the machines of a completed cluster are looked at; 0 for never",
	)
	s.DurationVar(&l.Retry, "retry", l.Retry, "wait after a run that did not succeed; it doubles each time")
	s.DurationVar(
		&l.MaxRetry,
		"max-retry",
		l.MaxRetry,
		"longest such wait, and longest interval of looks that fail, or at a cluster that waits for its last part",
	)
	s.IntVar(
		&l.MaxFailures,
		"max-failures",
		l.MaxFailures,
		"how often a part may fail, one time after the other, before the cluster is Failed; 0 for any number",
	)
	s.DurationVar(
		&l.StuckQueued,
		"stuck-queued",
		l.StuckQueued,
		"how long a cluster may be Queued before it counts as stuck; 0 for ever, as in all --stuck flags",
	)
	s.DurationVar(&l.StuckBlocked, "stuck-blocked", l.StuckBlocked, "how long it may be Blocked")
	s.DurationVar(&l.StuckHandover, "stuck-handover", l.StuckHandover, "how long its handover may take")
	s.DurationVar(
		&l.StuckComponents,
		"stuck-components",
		l.StuckComponents,
		"how long the components around its machines may take",
	)
	s.DurationVar(
		&l.StuckMachines,
		"stuck-machines",
		l.StuckMachines,
		"how long its machines may be without one more that is external",
	)
	s.DurationVar(&l.StuckFinish, "stuck-finish", l.StuckFinish, "how long the finish may take")
	s.StringVar(
		&f.objectives,
		"slo",
		f.objectives,
		"pause: a handover or a finish waits when load balancers begin to fail, or node syncs do "+
			"(objectives of KEP-2395); off: it goes on",
	)

	s.StringVar(&f.lease, "lease", f.lease, "name of the Lease that the acting replica holds")
	s.DurationVar(
		&f.leaseDuration,
		"leader-elect-lease-duration",
		f.leaseDuration,
		"how long a replica that died is waited for",
	)
	s.DurationVar(
		&f.renewDeadline,
		"leader-elect-renew-deadline",
		f.renewDeadline,
		"how long the acting replica may act after its last renewal",
	)
	s.DurationVar(
		&f.retryPeriod,
		"leader-elect-retry-period",
		f.retryPeriod,
		"wait between two tries to take or renew the lease",
	)
	s.DurationVar(&f.drain, "drain", f.drain, "how long steps under way are waited for when the process is told to end")

	s.StringVar(&f.healthAddress, "health-address", f.healthAddress, "address of /healthz and /readyz; empty for none")
	s.StringVar(&f.metricsAddress, "metrics-address", f.metricsAddress, "address of /metrics; empty for none")
	s.StringVar(&f.webhookAddress, "webhook-address", f.webhookAddress, "address of the webhooks; empty for none")
	s.StringVar(
		&f.webhookService,
		"webhook-service",
		f.webhookService,
		"name of the Service through which the seed's API server calls the webhooks",
	)
	s.StringVar(
		&f.webhookSecret,
		"webhook-secret",
		f.webhookSecret,
		"Secret in which the replicas keep the certificates of the webhooks",
	)
	s.StringSliceVar(
		&f.webhookConfigurations,
		"webhook-configurations",
		f.webhookConfigurations,
		"webhook configurations that are told which certificates to trust",
	)
	s.StringVar(
		&f.webhookCertificate,
		"webhook-certificate",
		f.webhookCertificate,
		"file with a certificate of the webhooks that others keep; the operator writes no webhook configuration then, "+
			"and takes no --webhook-secret",
	)
	s.StringVar(&f.webhookKey, "webhook-key", f.webhookKey, "file with the key of --webhook-certificate")
	s.StringVar(
		&f.webAddress,
		"web-address",
		f.webAddress,
		"address of the page about the fleet, e.g. 127.0.0.1:8443; empty for none",
	)
	s.StringVar(
		&f.webCertificate,
		"web-certificate",
		f.webCertificate,
		"file with the page's certificate; empty for that of the webhooks",
	)
	s.StringVar(&f.webKey, "web-key", f.webKey, "file with the key of --web-certificate")
	s.BoolVar(
		&f.enableActions,
		"enable-actions",
		f.enableActions,
		"let those who may update a Cluster act on it from the page, with their own rights",
	)

	s.BoolVar(
		&f.installCRDs,
		"install-crds",
		f.installCRDs,
		"create the definitions of Clusters that are missing and update ours; one of the original is never written",
	)
	s.StringToStringVar(
		&f.images,
		"ccm-image",
		f.images,
		"image of the cloud-controller-manager by provider (aws, azure, gce, openstack, vsphere), as aws=IMAGE; aws=official is the one that the provider's makers publish for each cluster's minor version, and PROVIDER=ours is this project's, for "+
			cloudprovider.Enumerate("or", cloudprovider.OwnProviders())+"; without it AWS gets ours where it is proven, other providers the official one",
	)
	s.StringVar(
		&f.vSphereCSI,
		"vsphere-csi-driver",
		f.vSphereCSI,
		"release of vSphere's CSI driver that clusters get from elsewhere, e.g. v2.3.0: versions that it does not support are refused; empty to judge by all known releases",
	)
	s.Float32Var(&f.qps, "kube-api-qps", f.qps, "requests a second to the seed")
	s.IntVar(&f.burst, "kube-api-burst", f.burst, "requests to the seed at once")
}

// validate says everything that is wrong with the flags.
func (f *flags) validate() error {
	var errs []error
	for name, n := range map[string]int{
		"--max-parallel":          f.maxParallel,
		"--max-parallel-machines": f.maxParallelMachines,
		"--workers":               f.workers,
		"--looks":                 f.looks,
		"--open-clusters":         f.openClusters,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s is %d: it has to be at least 1", name, n))
		}
	}
	if f.renewDeadline >= f.leaseDuration || f.retryPeriod >= f.renewDeadline {
		errs = append(
			errs,
			fmt.Errorf(
				"--leader-elect-retry-period %s < --leader-elect-renew-deadline %s < --leader-elect-lease-duration %s does not hold",
				f.retryPeriod,
				f.renewDeadline,
				f.leaseDuration,
			),
		)
	}
	if f.limits.Look <= 0 || f.limits.Retry <= 0 || f.limits.MaxRetry < f.limits.Retry {
		errs = append(
			errs,
			errors.New("--look-interval and --retry have to be positive, and --max-retry not shorter than --retry"),
		)
	}
	for name, value := range map[string]string{"--namespace": f.namespace, "--lease": f.lease} {
		if wrong := validation.IsDNS1123Subdomain(value); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s is %q: %s", name, value, strings.Join(wrong, ", ")))
		}
	}
	errs = append(errs, f.validateLimits()...)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(
		errors.Join(errs...),
		rules.CheckImages("ccm-image", f.images),
		rules.CheckVSphereCSI(f.vSphereCSI),
		f.validatePage(),
	)
}

// validateLimits says which times and counts make no sense.
func (f *flags) validateLimits() []error {
	var errs []error
	for name, d := range map[string]time.Duration{"--look-timeout": f.lookTimeout, "--stall-after": f.stallAfter, "--drain": f.drain} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s: it has to be positive", name, d))
		}
	}
	l := f.limits
	for name, d := range map[string]time.Duration{
		"--audit-interval":   l.Audit,
		"--stuck-queued":     l.StuckQueued,
		"--stuck-blocked":    l.StuckBlocked,
		"--stuck-handover":   l.StuckHandover,
		"--stuck-components": l.StuckComponents,
		"--stuck-machines":   l.StuckMachines,
		"--stuck-finish":     l.StuckFinish,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s is %s: it cannot be negative", name, d))
		}
	}
	if words := []string{objectives.FlagPause, objectives.FlagOff}; !slices.Contains(words, f.objectives) {
		errs = append(errs, fmt.Errorf("--slo is %q: it has to be %s", f.objectives, strings.Join(words, " or ")))
	}
	if l.MaxFailures < 0 {
		errs = append(errs, fmt.Errorf("--max-failures is %d: it cannot be negative", l.MaxFailures))
	}
	if f.qps <= 0 || f.burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-qps %v and --kube-api-burst %d have to be positive", f.qps, f.burst))
	}
	return errs
}

// validatePage says what is wrong with the flags of the page.
func (f *flags) validatePage() error {
	var errs []error
	if (f.webhookCertificate == "") != (f.webhookKey == "") {
		errs = append(errs, errors.New("--webhook-certificate and --webhook-key go together"))
	}
	if (f.webCertificate == "") != (f.webKey == "") {
		errs = append(errs, errors.New("--web-certificate and --web-key go together"))
	}
	if f.webAddress != "" && f.webCertificate == "" && f.webhookAddress == "" && !isLoopback(f.webAddress) {
		errs = append(
			errs,
			fmt.Errorf(
				"--web-address %s is not on this machine only, and there is no certificate for it: give --web-certificate",
				f.webAddress,
			),
		)
	}
	if f.enableActions && f.webAddress == "" {
		errs = append(errs, errors.New("--enable-actions needs --web-address"))
	}
	return errors.Join(errs...)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
