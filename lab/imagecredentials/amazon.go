package imagecredentials

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Amazon is an account with instances, one role that pods may take, and ECR.
type Amazon struct {
	net *Internet
	// Region and Account are those of the instance and of the registry.
	Region, Account string
	// PodToken is the token of a pod's service account that the role PodRole trusts.
	PodToken, PodRole string
	// Password is what the registry takes; PodPassword is given to the pod's role.
	Password, PodPassword string
	// Keys are further access keys that are given Password.
	Keys []string
	// InTreePassword is what the kubelet's own provider is given, which asks with an older SDK. No registry takes it.
	InTreePassword string
}

const (
	amazonInstanceKey = "ASIAINSTANCE00000001"
	amazonPodKey      = "ASIAPOD0000000000001"
	amazonTokenLife   = 12 * time.Hour
	ecrTarget         = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
	ecrPublicTarget   = "SpencerFrontendService.GetAuthorizationToken"
	imdsRole          = "node"
)

// NewAmazon puts the services of a region on an internet.
func NewAmazon(n *Internet, region string) *Amazon {
	a := &Amazon{
		net: n, Region: region, Account: "123456789012", PodToken: "pod-token-of-the-cluster",
		PodRole: "arn:aws:iam::123456789012:role/pulls", Password: "ecr-password-of-the-node", PodPassword: "ecr-password-of-the-pod",
		InTreePassword: "ecr-password-of-a-kubelet-in-tree",
	}
	n.Handle("api.ecr."+region+".amazonaws.com", a.ecr("ecr", region, ecrTarget, a.private))
	n.Handle("api.ecr-public.us-east-1.amazonaws.com", a.ecr("ecr-public", "us-east-1", ecrPublicTarget, a.public))
	n.Handle("sts."+region+".amazonaws.com", http.HandlerFunc(a.sts))
	return a
}

// CA is the certificate that clients of the account's services have to trust, in PEM.
func (a *Amazon) CA() []byte { return a.net.CA() }

// Registry is the host of the account's registry.
func (a *Amazon) Registry() string { return a.Account + ".dkr.ecr." + a.Region + ".amazonaws.com" }

// Metadata answers as the metadata service of an instance with a role. It is asked at the address of the internet's
// proxy: an SDK asks no proxy for it.
func (a *Amazon) Metadata() http.Handler {
	const token, roles = "imds-session", "/latest/meta-data/iam/security-credentials/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
			_, _ = fmt.Fprint(w, token)
		case r.Method != http.MethodGet || r.Header.Get("X-Aws-Ec2-Metadata-Token") != token:
			a.net.refuse(w, r, http.StatusUnauthorized, "IMDSv2 wants the token of a session")
		case r.URL.Path == roles:
			_, _ = fmt.Fprint(w, imdsRole)
		case r.URL.Path == roles+imdsRole:
			writeJSON(w, map[string]string{
				"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": amazonInstanceKey, "SecretAccessKey": "instance-secret",
				"Token": "instance-session", "Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			})
		default:
			a.net.refuse(w, r, http.StatusNotFound, "no such metadata")
		}
	})
}

var signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([A-Za-z0-9-]+)/[0-9]{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, `)

// ecr answers the one action of a service that is known, to the keys that are known. Signatures are not verified, but
// whose they are, and for which region and service.
func (a *Amazon) ecr(service, region, target string, answer func(password string) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := signature.FindStringSubmatch(r.Header.Get("Authorization"))
		passwords := map[string]string{amazonInstanceKey: a.Password, amazonPodKey: a.PodPassword}
		for _, key := range a.Keys {
			passwords[key] = a.Password
		}
		switch {
		case r.Method != http.MethodPost || r.Header.Get("X-Amz-Target") != target:
			a.net.refuse(w, r, http.StatusBadRequest, "unknown action "+r.Header.Get("X-Amz-Target"))
		case m == nil || m[2] != region || m[3] != service:
			a.net.refuse(w, r, http.StatusForbidden, "the request is not signed for "+service+" in "+region)
		case passwords[m[1]] == "":
			a.net.refuse(w, r, http.StatusForbidden, "unknown access key")
		default:
			password := passwords[m[1]]
			if strings.HasPrefix(r.UserAgent(), "aws-sdk-go/1.") {
				password = a.InTreePassword
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			writeJSON(w, answer(password))
		}
	})
}

func authorization(password string) map[string]any {
	return map[string]any{
		"authorizationToken": base64.StdEncoding.EncodeToString([]byte("AWS:" + password)),
		"expiresAt":          float64(time.Now().Add(amazonTokenLife).Unix()),
	}
}

func (a *Amazon) private(password string) any {
	data := authorization(password)
	data["proxyEndpoint"] = "https://" + a.Registry()
	return map[string]any{"authorizationData": []any{data}}
}

func (a *Amazon) public(password string) any {
	return map[string]any{"authorizationData": authorization(password)}
}

// sts exchanges the token of a pod's service account for the keys of its role.
func (a *Amazon) sts(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "AssumeRoleWithWebIdentity" {
		a.net.refuse(w, r, http.StatusBadRequest, "unknown action "+r.Form.Get("Action"))
		return
	}
	if r.Form.Get("WebIdentityToken") != a.PodToken || r.Form.Get("RoleArn") != a.PodRole {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>`+
			`<Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>`)
		return
	}
	type keys struct {
		AccessKeyID     string `xml:"AccessKeyId"`
		SecretAccessKey string
		SessionToken    string
		Expiration      string
	}
	answer := struct {
		XMLName     xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ AssumeRoleWithWebIdentityResponse"`
		Credentials keys     `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}{Credentials: keys{amazonPodKey, "pod-secret", "pod-session", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}
	w.Header().Set("Content-Type", "text/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}

func writeJSON(w http.ResponseWriter, value any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(value)
}

// bearer returns the token of a request.
func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
