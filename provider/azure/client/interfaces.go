package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// interfaces gives upstream network interfaces whose last change has failed as others. Upstream skips those and says
// nothing: their machine would get no traffic, or would keep it, until something else changes the interface. The next
// change is also what makes an interface right again.
type interfaces struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i *interfaces) RoundTrip(in *http.Request) (*http.Response, error) {
	out, err := i.next.RoundTrip(in)
	isRead := in.Method == http.MethodGet && strings.Contains(strings.ToLower(in.URL.Path), "/networkinterfaces/")
	if err != nil || !isRead || out.StatusCode != http.StatusOK {
		return out, err
	}
	body, err := io.ReadAll(out.Body)
	_ = out.Body.Close()
	if err != nil {
		return nil, err
	}
	body = settled(body)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out, nil
}

// settled is an object with the provisioning state Succeeded in place of Failed.
func settled(body []byte) []byte {
	var object, properties map[string]json.RawMessage
	var state string
	if json.Unmarshal(body, &object) != nil || json.Unmarshal(object["properties"], &properties) != nil ||
		json.Unmarshal(properties["provisioningState"], &state) != nil || !strings.EqualFold(state, "Failed") {
		return body
	}
	properties["provisioningState"] = json.RawMessage(`"Succeeded"`)
	inner, err := json.Marshal(properties)
	if err != nil {
		return body // it was read above
	}
	object["properties"] = inner
	whole, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return whole
}
