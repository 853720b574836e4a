// Package boundtoken decides when the token of a ServiceAccount is due for renewal. Such a token ends by itself, and at
// once when its account is deleted.
package boundtoken

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Lifetimes of the tokens of cloud-controller-managers.
const (
	// Lifetime is that of a token which a person or the operator renews: that of kubeadm's certificates.
	Lifetime = 365 * 24 * time.Hour
	// RenewingLifetime is that of a token which its own manager renews: as long as a host may be switched off and still
	// come back.
	RenewingLifetime = 90 * 24 * time.Hour
)

// Notice is how long before its end a token is warned of: one run of a monthly renewal is left.
const Notice = 30 * 24 * time.Hour

// Claims are what a token says of itself. Its signature is not verified: who reads it here has it from a file that only
// root writes.
type Claims struct {
	Namespace, Account, UID string
	Issued, Expires         time.Time
}

// ErrEndless says that a token never expires.
var ErrEndless = errors.New("the token never expires")

// Read returns the claims of a token of a ServiceAccount. The error quotes nothing of the token; it is ErrEndless for
// one that never expires.
func Read(token string) (Claims, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return Claims{}, errors.New("the content is no token of a ServiceAccount")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}, errors.New("the content is no token of a ServiceAccount: its middle part is not base64")
	}
	var body struct {
		Subject string  `json:"sub"`
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
		Bound   struct {
			Account struct {
				UID string `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(data, &body) != nil {
		return Claims{}, errors.New("the content is no token of a ServiceAccount: its middle part has other fields")
	}
	subject, found := strings.CutPrefix(body.Subject, "system:serviceaccount:")
	namespace, name, both := strings.Cut(subject, ":")
	if !found || !both {
		return Claims{}, errors.New("the token is not that of a ServiceAccount")
	}
	c := Claims{Namespace: namespace, Account: name, UID: body.Bound.Account.UID}
	if body.Expires == 0 {
		return c, ErrEndless
	}
	c.Issued, c.Expires = time.Unix(int64(body.Issued), 0).UTC(), time.Unix(int64(body.Expires), 0).UTC()
	return c, nil
}

// Lifetime is how long the token is valid in all.
func (c Claims) Lifetime() time.Duration { return c.Expires.Sub(c.Issued) }

// IsOf reports whether a token is that of a ServiceAccount.
func (c Claims) IsOf(namespace, account string) bool {
	return c.Namespace == namespace && c.Account == account
}

// IsDue reports whether a third of the token's life is over, so that it should be renewed.
func (c Claims) IsDue(now time.Time) bool { return now.After(c.Issued.Add(c.Lifetime() / 3)) }
