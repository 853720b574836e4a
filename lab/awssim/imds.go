package awssim

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// metadataToken is what a session of the metadata service is; one for everybody.
const metadataToken = "bGFiLW1ldGFkYXRhLXRva2Vu"

// absent are metadata that an instance without public address, role or key pair does not have: 404 is their right
// answer.
var absent = []string{"public-ipv4", "public-hostname", "iam/", "spot/", "public-keys/", "ipv6"}

// serveMetadata answers the instance metadata service, version 2: every GET needs a token ("Use the Instance Metadata
// Service" in the EC2 user guide). Faults do not apply to it.
func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	seq := s.audit.arrive(
		v1alpha1.CloudCall{Service: "imds", Action: r.Method + " " + r.URL.Path, Arrived: s.options.Clock.Now()},
	)
	text, status, refused := s.metadata(r)
	if refused != nil {
		s.audit.finish(seq, nil, refused, nil)
		http.Error(w, refused.Message, refused.Status)
		return
	}
	at := s.options.Clock.Now()
	s.audit.finish(seq, &at, nil, nil)
	if r.Method == http.MethodPut {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // The client may be gone; nothing was changed.
}

func (s *Server) metadata(r *http.Request) (text string, status int, refused *wire.Error) {
	if r.URL.Path == "/latest/api/token" {
		ttl, err := strconv.Atoi(r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		if r.Method != http.MethodPut || err != nil || ttl < 1 || ttl > 21600 {
			return "", 0, &wire.Error{
				Code:    "BadRequest",
				Message: "a token needs PUT and a time to live of 1 to 21600 seconds",
				Status:  http.StatusBadRequest,
			}
		}
		return metadataToken, http.StatusOK, nil
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != metadataToken {
		return "", 0, &wire.Error{
			Code:    "Unauthorized",
			Message: "the token is missing or wrong",
			Status:  http.StatusUnauthorized,
		}
	}
	notFound := &wire.Error{Code: "NotFound", Message: "there is no such metadata", Status: http.StatusNotFound}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.speaksFor(r.RemoteAddr)
	if i == nil {
		notFound.Message = "no instance is configured for callers from " + r.RemoteAddr
		return "", 0, notFound
	}
	path := strings.TrimPrefix(r.URL.Path, "/latest/")
	text, known := s.metadataOf(i)[strings.TrimSuffix(path, "/")]
	if known && r.Method == http.MethodGet {
		return text, http.StatusOK, nil
	}
	for _, prefix := range absent {
		if strings.HasPrefix(path, "meta-data/"+prefix) {
			return "", 0, notFound
		}
	}
	notFound.Unknown = true
	return "", 0, notFound
}

// speaksFor is the instance that a caller's metadata are about: the configured one for its address, else the one that
// has this address, else the default; nil for none.
func (s *Server) speaksFor(remote string) *ec2.Instance {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	if id := s.options.IMDS.ByAddress[host]; id != "" {
		return s.region.Instances[id]
	}
	for _, id := range wire.Keys(s.region.Instances) {
		if s.region.Instances[id].PrivateIP == host {
			return s.region.Instances[id]
		}
	}
	return s.region.Instances[s.options.IMDS.Default]
}

// metadataOf are the metadata of an instance, without the trailing slash of directories.
func (s *Server) metadataOf(i *ec2.Instance) map[string]string {
	document := map[string]string{
		"accountId":        ec2.AccountID,
		"architecture":     "x86_64",
		"availabilityZone": i.Zone,
		"imageId":          "ami-00000000000000001",
		"instanceId":       i.ID,
		"instanceType":     i.Type,
		"pendingTime":      "2026-01-01T00:00:00Z",
		"privateIp":        i.PrivateIP,
		"region":           s.region.Name,
		"version":          "2017-09-30",
	}
	text, _ := json.Marshal(document) // A map of strings always has JSON.
	mac := ec2.MAC(i.PrivateIP)
	nic := "meta-data/network/interfaces/macs/" + mac
	return map[string]string{
		"dynamic/instance-identity/document":    string(text),
		"meta-data/ami-id":                      "ami-00000000000000001",
		"meta-data/hostname":                    i.PrivateDNS,
		"meta-data/instance-id":                 i.ID,
		"meta-data/instance-type":               i.Type,
		"meta-data/local-hostname":              i.PrivateDNS,
		"meta-data/local-ipv4":                  i.PrivateIP,
		"meta-data/mac":                         mac,
		"meta-data/network/interfaces/macs":     mac + "/",
		nic + "/device-number":                  "0",
		nic + "/local-ipv4s":                    i.PrivateIP,
		nic + "/subnet-id":                      i.Subnet,
		nic + "/vpc-id":                         s.region.VPC.ID,
		"meta-data/placement/availability-zone": i.Zone,
		"meta-data/placement/region":            s.region.Name,
		"meta-data/security-groups":             strings.Join(i.SecurityGroups, "\n"),
		"meta-data/services/domain":             "amazonaws.com",
	}
}
