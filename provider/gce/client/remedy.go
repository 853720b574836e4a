package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	compute "google.golang.org/api/compute/v1"
)

// throttledReasons are those by which Google throttles with the status of missing rights.
var throttledReasons = []string{"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimitExceeded"}

// amend changes the status and the message of a refusal in the form of Google's APIs. Another body stays as it is.
func amend(out *http.Response, change func(message, reason string) (status int, amended string)) error {
	body, err := io.ReadAll(io.LimitReader(out.Body, maxRefusal))
	_ = out.Body.Close()
	if err != nil {
		return err
	}
	out.Body = io.NopCloser(bytes.NewReader(body))
	var sent struct {
		Error map[string]any `json:"error"`
	}
	if !isGoogles(body, out.StatusCode) || json.Unmarshal(body, &sent) != nil {
		return nil
	}
	message, _ := sent.Error["message"].(string)
	all, _ := sent.Error["errors"].([]any)
	first, _ := all[0].(map[string]any)
	reason, _ := first["reason"].(string)
	status, amended := change(message, reason)
	if amended == message {
		return nil
	}
	sent.Error["code"], sent.Error["message"], first["message"] = status, amended, amended
	sent.Error["errors"] = []any{first}
	if status != out.StatusCode {
		first["reason"] = "invalid" // "notFound" would be the object's
	}
	text, err := json.Marshal(map[string]any{"error": sent.Error})
	if err != nil {
		return err
	}
	out.StatusCode, out.Status = status, http.StatusText(status)
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

// missingScope is how Compute Engine says that it knows no such project, zone or region.
var missingScope = regexp.MustCompile(`^The resource 'projects/[^/']+(/(?:zones|regions)/[^/']+)?' was not found`)

// nameSetting adds to a refusal which setting of the cloud config is wrong. That there is no such project or zone says
// nothing of the object that was asked for. Upstream takes any 404 for "does not exist", so that the status is another.
func nameSetting(out *http.Response) error {
	status := out.StatusCode
	return amend(out, func(message, _ string) (int, string) {
		scope := missingScope.FindStringSubmatch(message)
		switch {
		case status == http.StatusNotFound && scope != nil && scope[1] == "":
			return http.StatusBadRequest, message + " (check project-id in the cloud config)"
		case status == http.StatusNotFound && scope != nil:
			return http.StatusBadRequest, message + " (check local-zone in the cloud config)"
		case status == http.StatusBadRequest && strings.Contains(message, "Unknown zone"):
			return status, message + " (check local-zone in the cloud config, and the providerIDs of nodes)"
		case status == http.StatusBadRequest && strings.Contains(message, "Unknown region"):
			return status, message + " (check local-zone in the cloud config: the region is that of the zone)"
		}
		return status, message
	})
}

// nameAccount adds to a refusal for missing rights whose token was refused.
func nameAccount(ctx context.Context, out *http.Response, tokens TokenSource) error {
	return amend(out, func(message, reason string) (int, string) {
		if slices.Contains(throttledReasons, reason) { // asks the metadata server for nothing while Google throttles
			return out.StatusCode, message
		}
		account := accountOf(ctx, tokens)
		if account == "" {
			return out.StatusCode, message
		}
		return out.StatusCode, message + " (the token is of " + account + ": give it a role with this permission in that " +
			"project, or use the credentials of an account that has one)"
	})
}

// accountOf says whose the tokens of a source are; empty where that is not known.
func accountOf(ctx context.Context, tokens TokenSource) string {
	if named, ok := tokens.(interface {
		account(ctx context.Context) string
	}); ok {
		return named.account(ctx)
	}
	return ""
}

func (m Metadata) account(ctx context.Context) string {
	email, err := m.Get(ctx, "instance/service-accounts/default/email")
	if err != nil || email == "" {
		return "the service account of this instance"
	}
	return email + ", the service account of this instance"
}

func (e Exchange) account(context.Context) string {
	return "the account that token-url gives tokens of"
}

func (Default) account(ctx context.Context) string {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: DefaultRequestTimeout})
	found, err := google.FindDefaultCredentials(ctx, compute.CloudPlatformScope, compute.ComputeScope)
	switch {
	case err != nil:
		return ""
	case len(found.JSON) == 0:
		return Metadata{}.account(ctx)
	}
	var file struct {
		Type    string `json:"type"`
		Email   string `json:"client_email"`
		Project string `json:"project_id"`
	}
	switch err := json.Unmarshal(found.JSON, &file); {
	case err != nil || file.Type == "":
		return ""
	case file.Email == "":
		return "Google's default credentials, which are of type " + file.Type
	case file.Project == "":
		return file.Email
	}
	return file.Email + ", a service account of project " + file.Project
}

// codeOf is the code of a token service's refusal, such as invalid_grant; empty for none. The rest of the answer may
// quote what was sent.
func codeOf(body []byte) string {
	var refusal struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refusal) != nil || strings.Trim(refusal.Error, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return refusal.Error
}
