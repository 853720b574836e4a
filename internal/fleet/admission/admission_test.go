package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// request is about a Cluster of today's group; before is empty for a new one.
func request(before, after string) *admissionv1.AdmissionRequest {
	out := &admissionv1.AdmissionRequest{
		UID: "u", Name: "c", Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Group: "kubermatic.k8c.io", Version: "v1", Kind: "Cluster"},
		Resource: metav1.GroupVersionResource{Group: "kubermatic.k8c.io", Version: "v1", Resource: "clusters"}, Object: runtime.RawExtension{Raw: []byte(after)},
	}
	if before != "" {
		out.Operation, out.OldObject.Raw = admissionv1.Update, []byte(before)
	}
	return out
}

// send goes the whole way: HTTP, AdmissionReview, answer.
func send(t *testing.T, o Options, path string, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	if err != nil {
		t.Fatal(err)
	}
	answer := post(t, o, path, "application/json", string(body))
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil || answer.Code != http.StatusOK || out.Response == nil {
		t.Fatalf("%d %s (%v)", answer.Code, answer.Body, err)
	}
	if out.Response.UID != r.UID || out.APIVersion != "admission.k8s.io/v1" || out.Kind != "AdmissionReview" {
		t.Errorf("the answer is to something else: %+v", out)
	}
	return out.Response
}

func post(t *testing.T, o Options, path, kind, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	New(o).Handler().ServeHTTP(w, r)
	return w
}

// patched is an object after a JSON patch that adds, as RFC 6902 has it: a parent that is missing is an error.
func patched(t *testing.T, object string, patch []byte) map[string]any {
	t.Helper()
	var out map[string]any
	var operations []operation
	if err := errors.Join(json.Unmarshal([]byte(object), &out), json.Unmarshal(patch, &operations)); err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		keys := strings.Split(o.Path, "/")
		for i := range keys {
			keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[i])
		}
		at := out
		for _, key := range keys[1 : len(keys)-1] {
			next, ok := at[key].(map[string]any)
			if !ok {
				t.Fatalf("%s: there is no %s to add to", o.Path, key)
			}
			at = next
		}
		if o.Op != "add" {
			t.Fatalf("operation %q", o.Op)
		}
		at[keys[len(keys)-1]] = o.Value
	}
	return out
}

const aws = `"version":"1.26.0","cloud":{"providerName":"aws","aws":{"secretAccessKey":"hush","vpcID":"v"}}`

func TestWhatIsAddedIsAPatchOfTheObjectAsItCame(t *testing.T) {
	dc := Options{Datacenter: func(context.Context, string) (*rules.Datacenter, error) {
		return &rules.Datacenter{DisableCSIDriver: true}, nil
	}}
	for name, test := range map[string]struct {
		options             Options
		before, after, want string // want is empty when nothing is added
	}{
		"a new cluster":               {after: `{"spec":{` + aws + `,"x":1}}`, want: `{"spec":{` + aws + `,"x":1,"features":{"externalCloudProvider":true,"ccmClusterName":true}}}`},
		"a new cluster with features": {after: `{"spec":{` + aws + `,"features":{"a":true}}}`, want: `{"spec":{` + aws + `,"features":{"a":true,"externalCloudProvider":true,"ccmClusterName":true}}}`},
		"features that are null":      {after: `{"spec":{` + aws + `,"features":null}}`, want: `{"spec":{` + aws + `,"features":{"externalCloudProvider":true,"ccmClusterName":true}}}`},
		"an explicit false":           {after: `{"spec":{` + aws + `,"features":{"externalCloudProvider":false}}}`},
		"the guide's object":          {after: `{"spec":{"exposeStrategy":"NodePort","features":{"externalCloudProvider":true},"humanReadableName":"determined-raman"}}`},
		"no spec at all":              {after: `{}`},
		"in a datacenter without CSI": {options: dc, after: `{"spec":{"cloud":{"dc":"d"}}}`, want: `{"spec":{"cloud":{"dc":"d"},"disableCsiDriver":true}}`},
		"enabling": {
			before: `{"spec":{` + aws + `}}`,
			after:  `{"metadata":{"name":"c"},"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
			want:   `{"metadata":{"name":"c","annotations":{"ccm-migration.k8c.io/migration-needed":"","csi-migration.k8c.io/migration-needed":""}},"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
		},
		"enabling with other annotations": {
			before: `{"spec":{` + aws + `}}`,
			after:  `{"metadata":{"annotations":{"a/b~c":"d"}},"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
			want:   `{"metadata":{"annotations":{"a/b~c":"d","ccm-migration.k8c.io/migration-needed":"","csi-migration.k8c.io/migration-needed":""}},"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
		},
		"enabling what has no metadata": {
			before: `{"spec":{` + aws + `}}`,
			after:  `{"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
			want:   `{"metadata":{"annotations":{"ccm-migration.k8c.io/migration-needed":"","csi-migration.k8c.io/migration-needed":""}},"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`,
		},
		"enabling OpenStack": {
			before: `{"spec":{"version":"1.25.0","cloud":{"providerName":"openstack"}}}`,
			after:  `{"spec":{"version":"1.25.0","cloud":{"providerName":"openstack"},"features":{"externalCloudProvider":true}}}`,
			want:   `{"metadata":{"annotations":{"ccm-migration.k8c.io/migration-needed":"","csi-migration.k8c.io/migration-needed":""}},"spec":{"version":"1.25.0","cloud":{"providerName":"openstack","openstack":{"useOctavia":true}},"features":{"externalCloudProvider":true}}}`,
		},
		"enabled before":      {before: `{"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`, after: `{"spec":{` + aws + `,"features":{"externalCloudProvider":true}}}`},
		"what cannot be read": {after: `{"spec":{"features":{"externalCloudProvider":"true"}}}`},
		"conditions in a list, as they used to be": {
			after: `{"spec":{` + aws + `},"status":{"conditions":[{"type":"A","status":"True"}]}}`,
			want:  `{"spec":{` + aws + `,"features":{"externalCloudProvider":true,"ccmClusterName":true}},"status":{"conditions":[{"type":"A","status":"True"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := send(t, test.options, MutatePath, request(test.before, test.after))
			if !answer.Allowed {
				t.Fatal("a webhook that completes has refused")
			}
			if test.want == "" {
				if answer.Patch != nil || answer.PatchType != nil {
					t.Fatalf("something was added: %s", answer.Patch)
				}
				return
			}
			if answer.PatchType == nil || *answer.PatchType != admissionv1.PatchTypeJSONPatch {
				t.Errorf("the patch is a %v", answer.PatchType)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, patched(t, test.after, answer.Patch)); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(string(answer.Patch), "hush") {
				t.Error("the patch holds a credential")
			}
		})
	}
}

func TestARefusalSaysWhichFieldAndWhyAndShowsNoCredential(t *testing.T) {
	elsewhere := Options{OtherGroups: func(context.Context, string, string) ([]string, error) { return []string{"kubermatic.k8s.io"}, nil }}
	on, off := `{"spec":{`+aws+`,"features":{"externalCloudProvider":true}}}`, `{"spec":{`+aws+`,"features":{"externalCloudProvider":false}}}`
	for name, test := range map[string]struct {
		options       Options
		before, after string
		want          string
	}{
		"allowed":              {after: on},
		"disabling":            {before: on, after: off, want: `Cluster.kubermatic.k8c.io "c" is invalid: spec.features[externalCloudProvider]: Invalid value: false: feature gate "externalCloudProvider" cannot be disabled once it's enabled`},
		"another cloud":        {before: on, after: `{"spec":{"cloud":{"providerName":"azure","azure":{"clientSecret":"hush"}},"features":{"externalCloudProvider":true}}}`, want: "not allowed to change the cloud provider"},
		"two clouds":           {after: `{"spec":{"cloud":{"aws":{"secretAccessKey":"hush"},"azure":{"clientSecret":"hush"}}}}`, want: "settings of aws, azure"},
		"in both groups":       {options: elsewhere, after: off, want: "exists in the group kubermatic.k8s.io as well"},
		"enabled in both":      {options: elsewhere, before: off, after: on, want: "exists in the group kubermatic.k8s.io as well"},
		"anything else":        {options: elsewhere, before: on, after: on},
		"not to be read":       {after: `{"spec":{"features":7,"cloud":{"aws":{"secretAccessKey":"hush"}}}}`, want: "cannot be read as a Cluster"},
		"mending what was not": {before: `{"spec":{"features":7}}`, after: off},
	} {
		t.Run(name, func(t *testing.T) {
			answer := send(t, test.options, ValidatePath, request(test.before, test.after))
			if answer.Allowed != (test.want == "") {
				t.Fatalf("allowed: %t, %+v", answer.Allowed, answer.Result)
			}
			if answer.Allowed {
				return
			}
			if !strings.Contains(answer.Result.Message, test.want) || answer.Result.Code != http.StatusUnprocessableEntity || answer.Result.Details == nil {
				t.Errorf("%+v\nwant in it: %s", answer.Result, test.want)
			}
			if data, _ := json.Marshal(answer); strings.Contains(string(data), "hush") {
				t.Errorf("the answer holds a credential: %s", data)
			}
		})
	}
}

func TestWhatIsNoClusterOrNoWriteOfOneHasNoRules(t *testing.T) {
	for name, edit := range map[string]func(*admissionv1.AdmissionRequest){
		"a status":         func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" },
		"a deletion":       func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Delete, nil },
		"another resource": func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "users" },
		"another group":    func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "cluster.k8s.io" },
	} {
		t.Run(name, func(t *testing.T) {
			r := request(`{"spec":{"features":{"externalCloudProvider":true}}}`, `{}`)
			edit(r)
			for _, path := range []string{MutatePath, ValidatePath} {
				if answer := send(t, Options{}, path, r); !answer.Allowed || answer.Patch != nil {
					t.Errorf("%s: %+v", path, answer)
				}
			}
		})
	}
}

// A lookup that does not work lets the write pass, for the operator looks again; the writer is told.
func TestWhatCannotBeLookedUpIsAWarning(t *testing.T) {
	away := errors.New("connection refused")
	o := Options{
		OtherGroups: func(context.Context, string, string) ([]string, error) { return nil, away },
		Datacenter:  func(context.Context, string) (*rules.Datacenter, error) { return nil, away },
	}
	answer := send(t, o, ValidatePath, request("", `{"spec":{"cloud":{"dc":"d","providerName":"aws"}}}`))
	if !answer.Allowed || len(answer.Warnings) != 2 {
		t.Errorf("allowed: %t, warnings %q", answer.Allowed, answer.Warnings)
	}
	hanging := Options{OtherGroups: func(ctx context.Context, _, _ string) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }}
	if answer := send(t, hanging, ValidatePath, request("", `{"spec":{}}`)); !answer.Allowed || len(answer.Warnings) != 1 {
		t.Errorf("allowed: %t, warnings %q", answer.Allowed, answer.Warnings)
	}
}

func TestWhatIsNoReviewIsAnErrorThatQuotesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		kind, body string
		code       int
	}{
		"no JSON":         {"application/json", `{"secretAccessKey":"hush"`, http.StatusBadRequest},
		"another kind":    {"application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`, http.StatusBadRequest},
		"no request":      {"application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, http.StatusBadRequest},
		"nothing":         {"application/json", ``, http.StatusBadRequest},
		"another type":    {"text/plain", `{}`, http.StatusUnsupportedMediaType},
		"no type":         {"", `{}`, http.StatusUnsupportedMediaType},
		"something large": {"application/json", `{"apiVersion":"` + strings.Repeat("x", maxReview) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{MutatePath, ValidatePath} {
				answer := post(t, Options{}, path, test.kind, test.body)
				if answer.Code != test.code || strings.Contains(answer.Body.String(), "hush") {
					t.Errorf("%s: %d %s, want %d", path, answer.Code, answer.Body, test.code)
				}
			}
		})
	}
}
