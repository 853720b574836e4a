package catalogue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

func TestConfigKeysAreOneRowEach(t *testing.T) {
	for provider, keys := range configKeys {
		seen := map[string]bool{}
		for _, k := range keys {
			name := strings.ToLower(k.Name())
			if seen[name] {
				t.Errorf("%s: %s is there twice", provider, name)
			}
			seen[name] = true
			if !k.InTree && !k.External {
				t.Errorf("%s: nobody reads %s", provider, name)
			}
			if k.InTree && !k.External && k.Why == "" && k.Renamed == "" {
				t.Errorf("%s: nothing says what becomes of %s", provider, name)
			}
			if k.Secret && k.Decides {
				t.Errorf("%s: the value of %s is a secret and shown", provider, name)
			}
			if k.Renamed != "" {
				section, key, _ := strings.Cut(k.Renamed, ".")
				if to, ok := ConfigKeyOf(provider, section, key); !ok || !to.External {
					t.Errorf("%s: %s becomes %s, which the external provider does not read", provider, name, k.Renamed)
				}
			}
			if strings.Contains(name, "password") || strings.Contains(name, "secret") && !strings.HasPrefix(k.Key, "secret") {
				if !k.Secret {
					t.Errorf("%s: %s is no secret", provider, name)
				}
			}
			if got, ok := ConfigKeyOf(provider, strings.ToUpper(k.Section), strings.ToLower(k.Key)); !ok || got != k {
				t.Errorf("%s: %s is not found", provider, name)
			}
		}
	}
}

func TestEveryMigratedProviderHasConfigKeys(t *testing.T) {
	for _, p := range cloudprovider.Providers() {
		if (p.Unsupported == "") != (len(ConfigKeys(p.Name)) > 0) {
			t.Errorf("%s has %d keys", p.Name, len(ConfigKeys(p.Name)))
		}
	}
}

func TestTheExternalAWSProviderReadsItsKeys(t *testing.T) {
	config := reflect.TypeFor[awsconfig.CloudConfig]()
	global, _ := config.FieldByName("Global")
	override, _ := config.FieldByName("ServiceOverride")
	for section, fields := range map[string]reflect.Type{"Global": global.Type, "ServiceOverride": override.Type.Elem().Elem()} {
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			if k, ok := ConfigKeyOf("aws", section, name); !ok || !k.External && name != "SigningMethod" { // read, and not looked at
				t.Errorf("%s.%s is not among the external provider's keys", section, name)
			}
		}
	}
	for _, k := range ConfigKeys("aws") {
		fields := global.Type
		if k.Section == "ServiceOverride" {
			fields = override.Type.Elem().Elem()
		}
		if _, ok := fields.FieldByName(k.Key); k.External && !ok {
			t.Errorf("the external provider does not read %s", k.Name())
		}
	}
}

// TestInTreeKeysAreThoseOfTheSource reads the structs of the in-tree providers where the module cache has them.
func TestInTreeKeysAreThoseOfTheSource(t *testing.T) {
	for _, version := range []string{"1.20.0", "1.23.0", "1.25.0", "1.26.0", "1.29.0", "1.30.14"} {
		for provider, files := range inTreeConfigs {
			dir := moduleDir("legacy-cloud-providers", version)
			if _, err := os.Stat(filepath.Join(dir, provider)); err != nil {
				continue
			}
			t.Run(provider+" "+version, func(t *testing.T) {
				have := map[string]bool{}
				for _, f := range files {
					for _, key := range structKeys(t, filepath.Join(dir, f)) {
						have[strings.ToLower(key)] = true
					}
				}
				want := map[string]bool{}
				for _, k := range ConfigKeys(provider) {
					if k.InTree {
						want[strings.ToLower(k.Key)] = true
					}
				}
				for key := range have {
					if !want[key] {
						t.Errorf("the in-tree provider reads %s, which the catalogue does not have", key)
					}
				}
				for key := range want {
					if !have[key] && provider != "azure" { // some of Azure's came after 1.20
						t.Errorf("the in-tree provider does not read %s", key)
					}
				}
			})
		}
	}
}

// inTreeConfigs are the files with the structs of each provider's config.
var inTreeConfigs = map[string][]string{
	"aws": {"aws/aws.go"}, "gce": {"gce/gce.go"}, "openstack": {"openstack/openstack.go"}, "vsphere": {"vsphere/vsphere.go"},
	"azure": {"azure/azure.go", "azure/auth/azure_auth.go", "azure/azure_ratelimit.go", "azure/clients/azure_client_config.go"},
}

// configStructs are the names of those structs.
var configStructs = map[string]bool{
	"Config": true, "CloudConfig": true, "ConfigGlobal": true, "VSphereConfig": true, "VirtualCenterConfig": true, "LoadBalancerOpts": true,
	"BlockStorageOpts": true, "RouterOpts": true, "MetadataOpts": true, "AzureAuthConfig": true, "CloudProviderRateLimitConfig": true,
	"RateLimitConfig": true,
}

// structKeys are the keys of the config's structs in a file, by their tags or, without one, by the fields' names.
func structKeys(t *testing.T, file string) (keys []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !configStructs[spec.Name.Name] {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			gce := strings.HasSuffix(file, "gce.go") && spec.Name.Name == "CloudConfig" // what a config becomes there
			if !gce {
				keys = append(keys, fieldKeys(s)...)
			}
		}
		return false
	})
	return keys
}

func fieldKeys(s *ast.StructType) (keys []string) {
	for _, f := range s.Fields.List {
		switch inner := f.Type.(type) {
		case *ast.StructType:
			keys = append(keys, fieldKeys(inner)...)
			continue
		case *ast.MapType:
			if star, ok := inner.Value.(*ast.StarExpr); ok {
				if anonymous, ok := star.X.(*ast.StructType); ok {
					keys = append(keys, fieldKeys(anonymous)...)
				}
			}
			continue
		}
		if len(f.Names) == 0 || strings.HasSuffix(dotted(f.Type), "Opts") || f.Names[0].Name == "NodeSecurityGroupIDs" { // embedded; a section; set by itself
			continue
		}
		keys = append(keys, keyOf(f))
	}
	return keys
}

func keyOf(f *ast.Field) string {
	if f.Tag != nil {
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		for _, name := range []string{"gcfg", "dcfg", "json"} {
			if value, ok := tag.Lookup(name); ok {
				key, _, _ := strings.Cut(value, ",")
				return key
			}
		}
	}
	return f.Names[0].Name
}

func TestStrictReaders(t *testing.T) {
	for provider, want := range map[string]int{"aws": 26, "openstack": 24, "vsphere": 29, "gce": 0, "azure": 0, "nobody": 0} {
		if got := StrictConfigUntil(provider); got != want {
			t.Errorf("%s is strict up to 1.%d, want 1.%d", provider, got, want)
		}
	}
}
