package ownership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// statusErr is an answer that is none, with its HTTP status.
type statusErr struct {
	status int
	text   string
}

func (e *statusErr) Error() string { return e.text }

// Refused tells an error that says that a component runs and does not answer this account.
func Refused(err error) bool {
	var e *statusErr
	return errors.As(err, &e) && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden)
}

// maxVersion bounds what is read of an answer to /version, which is some hundred bytes.
const maxVersion = 1 << 16

// Version asks the API server at address (host:port) for the version that it was built as, e.g. v1.27.4.
func Version(ctx context.Context, client *http.Client, address, token string) (string, error) {
	target := url.URL{Scheme: "https", Host: address, Path: "/version"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return "", fmt.Errorf("asking for the version of %s: %w", address, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := *client
	c.CheckRedirect = neverRedirect
	resp, err := c.Do(req)
	if err != nil {
		var urlErr *url.Error
		if errors.As(err, &urlErr) { // its text repeats the URL
			err = urlErr.Err
		}
		return "", fmt.Errorf("asking for the version of %s: %w", address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", &statusErr{resp.StatusCode, fmt.Sprintf("asking for the version of %s: status %d", address, resp.StatusCode)}
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxVersion)).Decode(&answer); err != nil || answer.GitVersion == "" {
		return "", fmt.Errorf("understanding the version of %s: it is no answer of an API server", address)
	}
	return answer.GitVersion, nil
}
