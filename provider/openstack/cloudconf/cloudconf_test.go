package cloudconf

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// keys are the keys that Config has, as the catalogue writes them, with the names of their fields.
func keys() (all map[string]string) {
	all = map[string]string{}
	config := reflect.TypeFor[Config]()
	for i := range config.NumField() {
		section := config.Field(i)
		t := section.Type
		if t.Kind() == reflect.Map {
			t = t.Elem().Elem()
		}
		for j := range t.NumField() {
			field := t.Field(j)
			key := field.Tag.Get("gcfg")
			if key == "" {
				key = strings.ToLower(field.Name)
			}
			all[section.Name+"."+key] = field.Name
		}
	}
	return all
}

func TestEveryKeyOfTheExternalProviderIsRead(t *testing.T) {
	var external []string
	for _, key := range catalogue.ConfigKeys("openstack") {
		if key.External && key.Name() != "LoadBalancer.use-octavia" {
			external = append(external, key.Name())
		}
	}
	external = append(external, "Global.token") // not documented, and read
	slices.Sort(external)
	known := slices.Sorted(maps.Keys(keys()))
	for key := range notUsed {
		known = append(known, key)
	}
	slices.Sort(known)
	if diff := cmp.Diff(slices.Compact(external), known); diff != "" {
		t.Errorf("keys (-catalogue +Config and notUsed):\n%s", diff)
	}
}

// A key that is read and not used would be passed over in silence. It belongs into notUsed.
func TestEveryKeyThatIsReadIsUsed(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				used[s.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, field := range keys() {
		if !used[field] {
			t.Errorf("%s is read into %s, which nothing uses: use it, or name it in notUsed", key, field)
		}
	}
}

func TestAKeyOfTheExternalProviderThatIsNotUsedIsNamed(t *testing.T) {
	text := "[Global]\nauth-url=https://keystone\n[LoadBalancer]\nContainer-Store=external\n[Metadata]\nsearch-order=configDrive\nrequest-timeout=5s\n"
	_, notes, err := Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(notes, "\n")
	if len(notes) != 2 || !strings.Contains(all, "[LoadBalancer] Container-Store is not used: this manager hands default-tls-container-ref on") ||
		!strings.Contains(all, "[Metadata] search-order is not used: this manager asks neither") {
		t.Errorf("notes: %q", notes)
	}
}

const inTree = `
[Global]
auth-url=http://127.0.0.1:15000/v3
username=demo
password=secret
tenant-name=demo
domain-name=Default
region=RegionOne
secret-name=cloud
[LoadBalancer]
use-octavia=true
subnet-id=nodes
monitor-delay=1m
[BlockStorage]
bs-version=v2
[Route]
router-id=r
[Colour]
blue=yes
`

func TestAnInTreeConfigIsRead(t *testing.T) {
	config, notes, err := Read([]byte(inTree))
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Global = Global{
		AuthURL: "http://127.0.0.1:15000/v3", Username: "demo", Password: "secret", TenantName: "demo", DomainName: "Default", Region: "RegionOne",
	}
	want.LoadBalancer.SubnetID = "nodes"
	want.LoadBalancer.MonitorDelay.Duration = time.Minute
	want.Route.RouterID = "r"
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if len(notes) != 3 {
		t.Fatalf("notes: %q", notes)
	}
	for i, part := range []string{"[Global] secret-name is not read", "[BlockStorage] bs-version is not read", "[Colour] blue is not read: no"} {
		if !strings.HasPrefix(notes[i], part) {
			t.Errorf("note %d is %q, want %q", i, notes[i], part)
		}
	}
}

func TestConfigsThatCannotBeUsed(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"empty":        {"\n", "is empty"},
		"no auth-url":  {"[Global]\nusername=a\n", "[Global] auth-url is missing"},
		"no section":   {"auth-url=x\n", "reading the cloud config"},
		"duration":     {"[Global]\nauth-url=x\n[LoadBalancer]\nmonitor-delay=5\n", "5"},
		"lb-version":   {"[Global]\nauth-url=x\n[LoadBalancer]\nlb-version=v1\n", `lb-version is "v1"`},
		"lb-method":    {"[Global]\nauth-url=x\n[LoadBalancer]\nlb-method=RANDOM\n", `lb-method is "RANDOM"`},
		"shared":       {"[Global]\nauth-url=x\n[LoadBalancer]\nmax-shared-lb=0\n", "max-shared-lb is 0"},
		"endpoint":     {"[Global]\nauth-url=x\nos-endpoint-type=private\n", "public, internal or admin"},
		"certificate":  {"[Global]\nauth-url=x\ncert-file=/dev/null\n", "set both or none"},
		"no CA":        {"[Global]\nauth-url=x\nca-file=/no/such/file\n", "/no/such/file"},
		"sort order":   {"[Global]\nauth-url=x\n[Networking]\naddress-sort-order=10.0.0.0/8,nets\n", `"nets" is no CIDR`},
		"no clouds":    {"[Global]\nuse-clouds=true\nclouds-file=/no/such/clouds\n", "/no/such/clouds"},
		"timeout":      {"[Global]\nauth-url=x\n[Metadata]\nrequest-timeout=0s\n", "request-timeout is 0s"},
		"no such bool": {"[Global]\nauth-url=x\ntls-insecure=perhaps\n", "perhaps"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q in it", err, test.says)
			}
		})
	}
}

// TestCredentialsOfCloudsAreNotSentElsewhere: a host's file would say to whom.
func TestCredentialsOfCloudsAreNotSentElsewhere(t *testing.T) {
	for text, refused := range map[string]bool{
		"[Global]\nauth-url=https://evil/v3\nuse-clouds=true\n":             true,
		"[global]\nAuth-URL = \"https://evil/v3\"\nUSE-CLOUDS\ncloud=one\n": true,
		"[Global]\nuse-clouds=true\ntls-insecure=true\n":                    true,
		"[Global]\nuse-clouds=true\nca-file=/etc/ssl/evil.pem\n":            true,
		"[Global]\nuse-clouds=true\ncloud=one\n":                            false,
		"[Global]\nauth-url=https://own/v3\nusername=u\npassword=p\n":       false,
		"[Global]\nauth-url=https://own/v3\nuse-clouds=false\nusername=u\n": false,
	} {
		if err := CheckClouds([]byte(text)); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCloudsFillWhatTheConfigLeavesOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := `clouds:
  one:
    auth: {auth_url: "https://one/v3", username: u, password: p, project_name: theirs, user_domain_name: Default}
    region_name: R1
    interface: internal
    verify: false
  two:
    auth: {auth_url: "https://two/v3"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, _, err := Read([]byte("[Global]\nuse-clouds=true\ncloud=one\nclouds-file=" + file + "\ntenant-name=ours\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Global{
		AuthURL: "https://one/v3", Username: "u", Password: "p", TenantName: "ours", UserDomainName: "Default", Region: "R1",
		EndpointType: "internal", TLSInsecure: true, UseClouds: true, CloudsFile: file, Cloud: "one",
	}
	if diff := cmp.Diff(want, config.Global); diff != "" {
		t.Errorf("global (-want +got):\n%s", diff)
	}
	_, _, err = Read([]byte("[Global]\nuse-clouds=true\nclouds-file=" + file + "\n"))
	if err == nil || !strings.Contains(err.Error(), "set [Global] cloud to one of its 2") {
		t.Errorf("with two clouds and no name the error is %v", err)
	}
	if err := os.WriteFile(file, []byte("clouds: [password: hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = Read([]byte("[Global]\nuse-clouds=true\nclouds-file=" + file + "\n"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("with a clouds.yaml that is broken the error is %v", err)
	}
}

func TestSortOrder(t *testing.T) {
	order, err := Networking{AddressSortOrder: " 10.1.0.0/16, 2001:db8::/32 ,"}.SortOrder()
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")}
	if err != nil || !slices.Equal(order, want) {
		t.Errorf("order %v, error %v", order, err)
	}
}
