package nodeipam

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/node/nodetest"
	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

func TestAWrongSettingIsRefusedWithTheNameOfItsFlag(t *testing.T) {
	nodes := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes()
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no cluster CIDR", func(c *Config) { c.ClusterCIDR = "" }, "--cluster-cidr is empty"},
		{"garbage", func(c *Config) { c.ClusterCIDR = "10.0.0.0/33" }, `parsing --cluster-cidr "10.0.0.0/33"`},
		{"two ranges of one family", func(c *Config) { c.ClusterCIDR = "10.0.0.0/16,10.1.0.0/16" }, "--cluster-cidr"},
		{"three ranges", func(c *Config) { c.ClusterCIDR = "10.0.0.0/16,fd00::/48,fd01::/48" }, "two are the most"},
		{"another allocator", func(c *Config) { c.AllocatorType = "CloudAllocator" }, `--cidr-allocator-type is "CloudAllocator"`},
		{"garbage of Services", func(c *Config) { c.Options.ServiceCIDRs = "10.0.0.0/8,x" }, "--service-cluster-ip-range"},
		{"two of Services of one family", func(c *Config) { c.Options.ServiceCIDRs = "10.0.0.0/8,11.0.0.0/8" }, "--service-cluster-ip-range"},
		{"a block larger than the range", func(c *Config) { c.Options.NodeMaskSize = 15 }, "--node-cidr-mask-size: a block of /15 does not fit"},
		{"a block smaller than an address", func(c *Config) { c.Options.NodeMaskSize = 33 }, "--node-cidr-mask-size: a block of /33"},
		{"a negative mask", func(c *Config) { c.Options.NodeMaskSizeIPv4 = -1 }, "--node-cidr-mask-size-ipv4 is -1"},
		{"one mask for two ranges", func(c *Config) { c.ClusterCIDR, c.Options.NodeMaskSize = "10.0.0.0/16,fd00::/48", 24 }, "--node-cidr-mask-size does not go"},
		{"one mask and another", func(c *Config) { c.Options.NodeMaskSize, c.Options.NodeMaskSizeIPv4 = 24, 24 }, "--node-cidr-mask-size does not go"},
		{"a mask of the other family", func(c *Config) { c.Options.NodeMaskSizeIPv6 = 64 }, "--node-cidr-mask-size-ipv6 is set"},
		{"a mask of the other family, IPv6", func(c *Config) { c.ClusterCIDR, c.Options.NodeMaskSizeIPv4 = "fd00::/48", 24 }, "--node-cidr-mask-size-ipv4 is set"},
		{"too many blocks", func(c *Config) { c.ClusterCIDR, c.Options.NodeMaskSize = "fd00::/48", 128 }, "too small"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Nodes: nodes, ClusterCIDR: "10.0.0.0/16", Options: NewOptions()}
			test.change(&config)
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOnlyAllocatorsThatCanWorkAreAccepted(t *testing.T) {
	lister := nodetest.Lister{Cloud: &nodetest.Cloud{}}
	for _, test := range []struct {
		kind     string
		provider cloudprovider.Interface
		want     string // empty: it is accepted
	}{
		{"", lister, ""},
		{"RangeAllocator", lister, ""},
		{"RangeAllocator", nil, ""},
		{"CloudAllocator", podLister{lister, true}, ""},
		{"CloudAllocator", podLister{lister, false}, "the provider test does not say which podCIDRs an instance has: set RangeAllocator and --cluster-cidr"},
		{"CloudAllocator", lister, "the provider test does not say which podCIDRs an instance has"},
		{"CloudAllocator", lister.Cloud, "the provider test does not say which podCIDRs an instance has"},
		{"CloudAllocator", nil, "there is no cloud provider"},
		{"IPAMFromCloud", podLister{lister, true}, "which this manager does not have: set RangeAllocator, for podCIDRs of --cluster-cidr, or CloudAllocator"},
	} {
		err := CheckAllocator(test.kind, test.provider)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %T: %v, want %q", test.kind, test.provider, err, test.want)
		}
	}
}

// podLister is a cloud that may list pod CIDRs.
type podLister struct {
	nodetest.Lister

	lists bool
}

func (l podLister) ListsPodCIDRs() bool { return l.lists }

func TestTheFlagsAreThoseOfKubeControllerManager(t *testing.T) {
	options, fs := NewOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(fs)
	err := fs.Parse([]string{
		"--service-cluster-ip-range=10.96.0.0/12,fd02::/112", "--node-cidr-mask-size=1", "--node-cidr-mask-size-ipv4=2", "--node-cidr-mask-size-ipv6=3",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Options{ServiceCIDRs: "10.96.0.0/12,fd02::/112", NodeMaskSize: 1, NodeMaskSizeIPv4: 2, NodeMaskSizeIPv6: 3}
	if diff := cmp.Diff(want, options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestALargeRangeCostsNoMemoryAndGivesItsBlocksInOrder(t *testing.T) {
	for cidr, want := range map[string][]string{
		"fd00::/48":     {"fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64"},
		"fd00::/8":      {"fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64"},
		"fd00:1:2::/62": {"fd00:1:2::/64", "fd00:1:2:1::/64", "fd00:1:2:2::/64"},
	} {
		p, err := newPool(netip.MustParsePrefix(cidr), 64)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 3 {
			s, ok := p.takeBlock()
			if !ok {
				t.Fatal("exhausted")
			}
			got = append(got, p.cidr(s.first).String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", cidr, diff)
		}
		if len(p.used) != 3 {
			t.Errorf("%d entries", len(p.used))
		}
	}
}

func FuzzFlags(f *testing.F) {
	f.Add("10.0.0.0/16", "10.96.0.0/12", int32(0), int32(0), int32(0), "10.0.3.0/24")
	f.Add("10.0.0.0/16,fd00::/48", "10.0.0.0/20,fd00::/112", int32(0), int32(26), int32(72), "fd00:0:0:5::/64")
	f.Add("::/0", "::/1", int32(62), int32(0), int32(0), "8000::/1")
	f.Fuzz(func(t *testing.T, cluster, services string, size, four, six int32, node string) {
		options := Options{ServiceCIDRs: services, NodeMaskSize: size, NodeMaskSizeIPv4: four, NodeMaskSizeIPv6: six}
		if errs := options.Validate(); len(errs) > 0 {
			return
		}
		pools, err := options.pools(cluster)
		if err != nil {
			if !strings.Contains(err.Error(), "--") {
				t.Errorf("an error without a flag: %v", err)
			}
			return
		}
		l := newLedger(pools)
		l.hold("node", "node", []string{node})
		given, ok, err := l.reserve("new", "new")
		if err != nil {
			return
		}
		if !ok || len(given) != len(pools) {
			t.Fatalf("given %q of %d pools", given, len(pools))
		}
		for i, cidr := range given {
			prefix, err := podcidr.Parse(cidr)
			if err != nil || !pools[i].prefix.Overlaps(prefix) || prefix.Bits() < pools[i].prefix.Bits() {
				t.Errorf("%s is not in %s", cidr, pools[i].prefix)
			}
			for _, other := range append(strings.Split(services, ","), node) {
				if p, err := podcidr.Parse(strings.TrimSpace(other)); err == nil && p.Overlaps(prefix) {
					t.Errorf("%s overlaps with %s", prefix, p)
				}
			}
			if s, ok := pools[i].span(prefix); !ok || s.first != s.last || pools[i].cidr(s.first) != prefix {
				t.Errorf("%s is block %v of %s", prefix, s, pools[i].prefix)
			}
		}
		before := pools[0].freeBlocks()
		l.releaseNode("new")
		if got := pools[0].freeBlocks(); got != before+1 {
			t.Errorf("%d blocks free after a release, %d before", got, before)
		}
	})
}
