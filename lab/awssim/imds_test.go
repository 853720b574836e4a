package awssim_test

import (
	"io"
	"net/http"
	"testing"

	imdsv2 "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	awsv1 "github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/ec2metadata"
	"github.com/aws/aws-sdk-go/aws/session"

	"github.com/transplant-dev/transplant/lab/awssim"
)

// mac is the hardware address of 10.0.0.11.
const mac = "0a:00:0a:00:00:0b"

func TestBothSDKsReadTheMetadataOfTheirInstance(t *testing.T) {
	o := scriptOptions()
	o.IMDS.ByAddress = map[string]string{"127.0.0.1": first}
	o.IMDS.Default = second
	sim := start(t, o)
	s, err := session.NewSession(&awsv1.Config{Endpoint: awsv1.String(sim.url() + "/latest"), HTTPClient: sim.transport()})
	if err != nil {
		t.Fatal(err)
	}
	v1 := ec2metadata.New(s)
	v2 := imdsv2.New(imdsv2.Options{Endpoint: sim.url(), HTTPClient: sim.transport(), ClientEnableState: imdsv2.ClientEnabled})
	read := map[string]func(path string) (string, error){
		"sdk-v1": v1.GetMetadata,
		"sdk-v2": func(path string) (string, error) {
			out, err := v2.GetMetadata(t.Context(), &imdsv2.GetMetadataInput{Path: path})
			if err != nil {
				return "", err
			}
			defer out.Content.Close()
			text, err := io.ReadAll(out.Content)
			return string(text), err
		},
	}
	for sdk, get := range read {
		for path, want := range map[string]string{
			"instance-id": first, "placement/availability-zone": "us-east-1a", "placement/region": "us-east-1", "instance-type": "m5.large",
			"local-ipv4": "10.0.0.11", "local-hostname": "ip-10-0-0-11.ec2.internal", "network/interfaces/macs/": mac + "/",
			"network/interfaces/macs/" + mac + "/vpc-id": "vpc-lab", "network/interfaces/macs/" + mac + "/device-number": "0",
			"network/interfaces/macs/" + mac + "/local-ipv4s": "10.0.0.11",
		} {
			if got, err := get(path); err != nil || got != want {
				t.Errorf("%s: %s is %q (%v), want %q", sdk, path, got, err, want)
			}
		}
		if got, err := get("public-ipv4"); err == nil {
			t.Errorf("%s: there is a public address: %q", sdk, got)
		}
	}
	if region, err := v1.Region(); err != nil || region != "us-east-1" {
		t.Errorf("sdk-v1: the region is %q (%v)", region, err)
	}
	region, err := v2.GetRegion(t.Context(), nil)
	if err != nil || region.Region != "us-east-1" {
		t.Errorf("sdk-v2: the region is %+v (%v)", region, err)
	}
	if u := sim.Unknown(); len(u) != 0 {
		t.Errorf("unknown: %+v", u)
	}
	for _, c := range sim.Audit().Calls(awssim.Filter{Services: []string{"imds"}, Actions: []string{"GET /latest/meta-data/public-ipv4"}}) {
		if c.Error != "NotFound" || c.Effect != nil {
			t.Errorf("recorded as %+v", c)
		}
	}
}

func TestTheMetadataServiceRefusesWhatAWSRefuses(t *testing.T) {
	named, nobodys := scriptOptions(), scriptOptions()
	named.IMDS.Default = second
	token := func(sim *simulation) string {
		return sim.metadata(t, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60").body
	}
	for name, c := range map[string]struct {
		options                    awssim.Options
		method, path, header, with string
		status                     int
		unknown                    bool
	}{
		"no token":                   {named, http.MethodGet, "/latest/meta-data/instance-id", "", "", 401, false},
		"a wrong token":              {named, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", "guess", 401, false},
		"a token without lifetime":   {named, http.MethodPut, "/latest/api/token", "", "", 400, false},
		"a token that lives a week":  {named, http.MethodPut, "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "604800", 400, false},
		"unknown metadata":           {named, http.MethodGet, "/latest/meta-data/events", "X-aws-ec2-metadata-token", "", 404, true},
		"an instance without a role": {named, http.MethodGet, "/latest/meta-data/iam/security-credentials/", "X-aws-ec2-metadata-token", "", 404, false},
		"a caller without instance":  {nobodys, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", "", 404, false},
		"the default instance":       {named, http.MethodGet, "/latest/meta-data/instance-id", "X-aws-ec2-metadata-token", "", 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			sim := start(t, c.options)
			with := c.with
			if c.header == "X-aws-ec2-metadata-token" && with == "" {
				with = token(sim)
			}
			if got := sim.metadata(t, c.method, c.path, c.header, with); got.status != c.status {
				t.Errorf("answered %+v, want status %d", got, c.status)
			}
			if (len(sim.Unknown()) > 0) != c.unknown {
				t.Errorf("unknown: %+v", sim.Unknown())
			}
		})
	}
}

// metadata makes a request to the metadata service without an SDK.
func (s *simulation) metadata(t *testing.T, method, path, header, value string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != "" {
		r.Header.Set(header, value)
	}
	answer, err := s.transport().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{status: answer.StatusCode, body: string(body)}
}
