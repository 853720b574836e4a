package cloudconfig

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const inTree = `# written by hand
[Global]
Zone = us-east-1a
VPC = vpc-1 ; the nodes' account
DisableStrictZoneCheck = true
KubernetesClusterID = lab

# the endpoints inside the VPC
[ServiceOverride "1"]
Service = ec2
Region = us-east-1
URL = https://ec2.internal.example:8443
SigningRegion = us-east-1
SigningName = ec2
SigningMethod = v4

[ServiceOverride "2"]
Service = elasticloadbalancing
Region = us-east-1
URL = https://elb.internal.example
SigningRegion = us-east-1
SigningMethod = v4

[ServiceOverride "3"]
Service = kms
Region = us-east-1
URL = https://kms.internal.example
SigningRegion = us-east-1
`

const derived = `# written by hand
[Global]
Zone = us-east-1a
VPC = vpc-1 ; the nodes' account
KubernetesClusterID = lab

# the endpoints inside the VPC
[ServiceOverride "1"]
Service = EC2
Region = us-east-1
URL = https://ec2.internal.example:8443
SigningRegion = us-east-1
SigningName = ec2

[ServiceOverride "2"]
Service = Elastic Load Balancing
Region = us-east-1
URL = https://elb.internal.example
SigningRegion = us-east-1

[ServiceOverride "4"]
Service = Elastic Load Balancing v2
Region = us-east-1
URL = https://elb.internal.example
SigningRegion = us-east-1

[ServiceOverride "3"]
Service = KMS
Region = us-east-1
URL = https://kms.internal.example
SigningRegion = us-east-1
`

func section(name, service, region string) string {
	return "[ServiceOverride \"" + name + "\"]\nService = " + service + "\nRegion = " + region + "\nURL = http://x\nSigningRegion = " + region + "\n"
}

func TestDerive(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"every kind of change":                     {inTree, derived},
		"the external provider's own config stays": {derived, derived},
		"an empty config":                          {"", ""},
		"a config without overrides":               {"[Global]\nZone = a\n", "[Global]\nZone = a\n"},
		"names of sections and variables in another case": {
			"[global]\ndisablestrictzonecheck\n" + strings.ToLower(section("1", "kms", "r")),
			"[global]\n" + strings.Replace(strings.ToLower(section("1", "kms", "r")), "kms", "KMS", 1),
		},
		"a quoted name stays quoted":                        {section("1", `"ec2"`, "r"), section("1", `"EC2"`, "r")},
		"a comment behind the name stays":                   {section("1", "ec2 ; ours", "r"), section("1", "EC2 ; ours", "r")},
		"an override that is there for both is not doubled": {section("1", "ec2", "r") + section("2", "EC2", "r"), section("2", "EC2", "r")},
		"one half of a pair is there already": {
			section("1", "elasticloadbalancing", "r") + section("9", "Elastic Load Balancing", "r"),
			section("1", "Elastic Load Balancing v2", "r") + section("9", "Elastic Load Balancing", "r"),
		},
		"another region is another override": {section("1", "ec2", "a") + section("2", "EC2", "b"), section("1", "EC2", "a") + section("2", "EC2", "b")},
		"a section in two places": {
			"[ServiceOverride \"x\"]\nService = kms\n[Global]\n[ServiceOverride \"x\"]\nRegion = r\nURL = u\nSigningRegion = r\n",
			"[ServiceOverride \"x\"]\nService = KMS\n[Global]\n[ServiceOverride \"x\"]\nRegion = r\nURL = u\nSigningRegion = r\n",
		},
		"the metadata service loses the path that the newer SDK adds": {
			strings.Replace(section("1", "ec2metadata", "r"), "http://x", "http://x/latest/", 1), section("1", "ec2imds", "r"),
		},
		"the metadata service without a path": {section("1", "ec2metadata", "r"), section("1", "ec2imds", "r")},
		"the metadata service of two regions is one": {
			section("1", "ec2metadata", "r") + section("2", "ec2imds", "s"), section("2", "ec2imds", "s"),
		},
		"services that nobody calls stay": {section("1", "autoscaling", "r"), section("1", "autoscaling", "r")},
		"lines that end as on Windows": {
			strings.ReplaceAll(section("1", "elasticloadbalancing", "r"), "\n", "\r\n"),
			strings.ReplaceAll(section("1", "Elastic Load Balancing", "r")+"\n"+section("2", "Elastic Load Balancing v2", "r"), "\n", "\r\n"),
		},
		"no line break at the end": {
			strings.TrimSuffix(section("1", "elasticloadbalancing", "r"), "\n"),
			strings.TrimSuffix(section("1", "Elastic Load Balancing", "r")+"\n"+section("2", "Elastic Load Balancing v2", "r"), "\n"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, changes, err := derivedAWS([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (tt.in == tt.want) != (len(changes) == 0) {
				t.Errorf("changes = %q", changes)
			}
			again, changes, err := derivedAWS(out)
			if err != nil || !bytes.Equal(again, out) || len(changes) > 0 {
				t.Errorf("deriving again: %v, %q:\n%s", err, changes, again)
			}
		})
	}
}

func TestChangesAreSentencesWithoutValues(t *testing.T) {
	_, changes, err := derivedAWS([]byte(inTree))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`[ServiceOverride "1"]: Service ec2 becomes EC2, the name that the external provider looks for`,
		`[ServiceOverride "2"]: Service elasticloadbalancing becomes Elastic Load Balancing, the name that the external provider looks for`,
		`[ServiceOverride "4"] is added for Elastic Load Balancing v2, with the values of [ServiceOverride "2"]: the in-tree provider has one override for both`,
		`[ServiceOverride "3"]: Service kms becomes KMS, the name that the external provider looks for`,
		`[Global]: DisableStrictZoneCheck is left out: the external provider does not check zones`,
		`[ServiceOverride "1"]: SigningMethod is left out: the external provider always signs with version 4`,
		`[ServiceOverride "2"]: SigningMethod is left out: the external provider always signs with version 4`,
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDeriveRefuses(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"an unknown service": {section("7", "Ec2", "r"), `[ServiceOverride "7"]: Service "Ec2" is not known: the external provider would ignore it`},
		"a blank service":    {section("1", `" "`, "r"), `[ServiceOverride "1"]: Service is missing`},
		"one service twice": {
			section("1", "ec2", "r") + section("2", "ec2", "r"),
			`[ServiceOverride "2"]: [ServiceOverride "1"] overrides the same service in the same region`,
		},
		"a line that is nothing":            {"[Global]\n= x\n", "line 2: "},
		"a variable before any section":     {"Zone = a\n", "line 1: a variable stands before the first section"},
		"an open bracket":                   {"[Global\nZone = a\n", "line 1: a section's closing bracket was expected"},
		"an open quote":                     {"[Global]\nZone = \"a\n", "line 2: string not terminated"},
		"a bad escape":                      {"[Global]\nZone = \"\\x\"\n", "line 2: unknown escape sequence"},
		"an empty name":                     {"[ServiceOverride \"\"]\n", "line 1: the section's second name is empty"},
		"two words where one value belongs": {"[Global] x\n", "line 1: something follows on the line"},
		"a byte order mark":                 {"\ufeff[Global]\n", "line 1: illegal character"},
		"a nameless section":                {"[]\n", "line 1: a section's name was expected"},
		"a variable without an equals sign": {"[Global]\nZone a\n", "line 2: something follows on the line"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, changes, err := derivedAWS([]byte(tt.in))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
			if out != nil || changes != nil {
				t.Errorf("there is a result next to the error: %q, %q", out, changes)
			}
		})
	}
}

func TestEveryFaultIsNamedAtOnce(t *testing.T) {
	_, _, err := derivedAWS([]byte(section("1", "nosuch", "r") + section("2", "neither", "r")))
	if err == nil || !strings.Contains(err.Error(), `[ServiceOverride "1"]`) || !strings.Contains(err.Error(), `[ServiceOverride "2"]`) {
		t.Errorf("err = %v", err)
	}
}

func TestDescribe(t *testing.T) {
	d, err := Describe("aws", []byte("[global]\nzone = secret-a\nOdd = secret-b\nVPC\n"+section("1", "ec2", "secret-r")))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Global.Odd",
		"Global.VPC",
		"Global.Zone",
		`ServiceOverride "1".Region`,
		`ServiceOverride "1".Service`,
		`ServiceOverride "1".SigningRegion`,
		`ServiceOverride "1".URL`,
	}
	if diff := cmp.Diff(want, d.Keys); diff != "" {
		t.Errorf("keys, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ec2"}, d.ServiceOverrides); diff != "" {
		t.Errorf("services, -want +got:\n%s", diff)
	}
	if _, err := Describe("aws", []byte("not a config")); err == nil {
		t.Error("no error for what is no config")
	}
}

// FuzzDerive checks that any text gives a result or an error, that a result is stable, and that nothing but what is meant to change does.
func FuzzDerive(f *testing.F) {
	for _, seed := range []string{inTree, derived, "", "[a \"b\\\"\"]\nx=\"1\\\n2\" ; c\r\n", "[Global]\nZone"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out, changes, err := derivedAWS(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was written to")
		}
		if err != nil {
			return
		}
		again, more, err := derivedAWS(out)
		if err != nil || len(more) > 0 || !bytes.Equal(out, again) {
			t.Fatalf("deriving again: %v %q\n%q\n%q\n%q", err, more, in, out, again)
		}
		if len(changes) == 0 && !bytes.Equal(in, out) {
			t.Fatalf("a change is not told:\n%q\n%q", in, out)
		}
	})
}

// derivedAWS is Derive for AWS, with the problems as one error.
func derivedAWS(in []byte) (out []byte, changes []string, err error) {
	d, err := deriveAWS(in)
	if err != nil {
		return nil, nil, err
	}
	if len(d.Problems) > 0 {
		return nil, nil, errors.New(strings.Join(d.Problems, "\n"))
	}
	return d.Data, d.Changes, nil
}
