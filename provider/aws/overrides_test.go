package aws

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/gcfg.v1"
	awsconfig "k8s.io/cloud-provider-aws/pkg/providers/v1/config"
)

// override is a section of a cloud config, with a URL that tells it from the others.
func override(section, service string) string {
	return "[ServiceOverride \"" + section + "\"]\nService = " + service + "\nRegion = us-east-1\nURL = http://" + section + ".test\nSigningRegion = us-east-1\n"
}

func parse(t *testing.T, text string) *awsconfig.CloudConfig {
	t.Helper()
	var cfg awsconfig.CloudConfig
	if err := gcfg.FatalOnly(gcfg.ReadInto(&cfg, bytes.NewReader([]byte(text)))); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

// services are the overrides of a config: service, URL and the name that requests are signed with.
func services(cfg *awsconfig.CloudConfig) []string {
	var out []string
	for _, o := range cfg.ServiceOverride {
		out = append(out, o.Service+" "+o.URL+" "+o.SigningName)
	}
	slices.Sort(out)
	return out
}

func TestOverridesInBothDialectsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		name  string
		file  string
		want  []string
		notes []string
	}{
		{"no overrides", "[Global]\nZone = us-east-1a\n", nil, nil},
		{
			"the external provider's names stay as they are",
			override("1", "EC2") + override("2", "Elastic Load Balancing") + override("3", "Elastic Load Balancing v2") + override("4", "KMS") + override("5", "ec2imds"),
			[]string{"EC2 http://1.test ", "Elastic Load Balancing http://2.test ", "Elastic Load Balancing v2 http://3.test ", "KMS http://4.test ", "ec2imds http://5.test "},
			nil,
		},
		{
			"the in-tree provider's names",
			override("1", "ec2") + override("2", "elasticloadbalancing") + override("3", "kms") + override("4", "sts"),
			[]string{
				"EC2 http://1.test ec2", "Elastic Load Balancing http://2.test elasticloadbalancing", "Elastic Load Balancing v2 http://2.test elasticloadbalancing",
				"KMS http://3.test kms", "STS http://4.test sts",
			},
			[]string{
				`[ServiceOverride "1"] for service "ec2" is read as "EC2"`,
				`[ServiceOverride "2"] for service "elasticloadbalancing" is read as "Elastic Load Balancing", "Elastic Load Balancing v2"`,
				`[ServiceOverride "3"] for service "kms" is read as "KMS"`,
				`[ServiceOverride "4"] for service "sts" is read as "STS"`,
			},
		},
		{
			"a signing name of one's own",
			strings.Replace(override("1", "ec2"), "SigningRegion", "SigningName = mine\nSigningRegion", 1),
			[]string{"EC2 http://1.test mine"},
			[]string{`[ServiceOverride "1"] for service "ec2" is read as "EC2"`},
		},
		{
			"both dialects side by side: the new names count",
			override("1", "ec2") + override("2", "EC2"),
			[]string{"EC2 http://2.test "},
			[]string{`[ServiceOverride "1"] for service "ec2" is left aside: [ServiceOverride "2"] is there for "EC2"`},
		},
		{
			"half of both: the other half is filled up",
			override("1", "elasticloadbalancing") + override("2", "Elastic Load Balancing"),
			[]string{"Elastic Load Balancing http://2.test ", "Elastic Load Balancing v2 http://1.test elasticloadbalancing"},
			[]string{`[ServiceOverride "1"] for service "elasticloadbalancing" is read as "Elastic Load Balancing v2"; [ServiceOverride "2"] is there for "Elastic Load Balancing"`},
		},
		{
			"another region is another override",
			override("1", "ec2") + strings.Replace(override("2", "EC2"), "us-east-1", "eu-west-1", 1),
			[]string{"EC2 http://1.test ec2", "EC2 http://2.test "},
			[]string{`[ServiceOverride "1"] for service "ec2" is read as "EC2"`},
		},
		{
			"the metadata service loses the path that the newer SDK adds",
			strings.Replace(override("1", "ec2metadata"), ".test", ".test/latest/", 1),
			[]string{"ec2imds http://1.test "},
			[]string{`[ServiceOverride "1"] for service "ec2metadata" is read as "ec2imds"`},
		},
		{
			"services that nobody calls",
			override("1", "s3") + override("2", "autoscaling"),
			[]string{"autoscaling http://2.test ", "s3 http://1.test "},
			[]string{
				`[ServiceOverride "1"] for service "s3" changes nothing: this program does not call it`,
				`[ServiceOverride "2"] for service "autoscaling" changes nothing: this program does not call it`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := parse(t, c.file)
			notes, err := understand(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, services(cfg)); diff != "" {
				t.Errorf("overrides (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverridesThatCannotBeReadAreAllRefusedByName(t *testing.T) {
	_, err := understand(parse(t, override("1", "Ec2")+override("2", "EC2")+override("3", "elb")))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`[ServiceOverride "1"] is for service "Ec2", which is not known: its calls would go to the real AWS endpoint`, `[ServiceOverride "3"] is for service "elb"`,
		`The services are "EC2", "Elastic Load Balancing", "Elastic Load Balancing v2", "KMS", "ec2imds", "STS", or by the names of the in-tree provider "ec2", "ec2metadata", "elasticloadbalancing", "kms", "sts"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), `[ServiceOverride "2"]`) {
		t.Errorf("the error names an override that is right:\n%v", err)
	}
}

func TestOverridesForOtherRegionsAreNamed(t *testing.T) {
	cfg := parse(
		t,
		override("1", "EC2")+strings.ReplaceAll(override("2", "KMS"), "us-east-1", "eu-west-1")+strings.ReplaceAll(override("3", "ec2imds"), "us-east-1", "x"),
	)
	want := []string{`[ServiceOverride "2"] for service "KMS" is not used: it is for region "eu-west-1", and the cluster is in "us-east-1"`}
	if diff := cmp.Diff(want, unusedOverrides(cfg, "us-east-1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzCloudConfig(f *testing.F) {
	f.Add(override("1", "ec2") + override("2", "Elastic Load Balancing"))
	f.Add(override("1", "elasticloadbalancing") + "[Global]\nNodeIPFamilies = ipv6\nRoleARN = x\n")
	f.Add("[ServiceOverride \"\"]\nService = kms\n")
	f.Add("[ServiceOverride \"1\"]\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := readCloudConfig([]byte(text))
		if err != nil {
			return
		}
		for _, section := range slices.Sorted(maps.Keys(cfg.ServiceOverride)) {
			service := cfg.ServiceOverride[section].Service
			if inTree[service] != nil || !slices.Contains(append(slices.Clone(uncalled), overridable...), service) {
				t.Errorf("[ServiceOverride %q] for service %q was accepted, and nobody looks for it", section, service)
			}
		}
		again := parse(t, text)
		if _, err := understand(again); err != nil {
			t.Errorf("reading it again: %v", err)
		}
		if diff := cmp.Diff(services(cfg), services(again)); diff != "" {
			t.Errorf("reading it again gives something else:\n%s", diff)
		}
	})
}
