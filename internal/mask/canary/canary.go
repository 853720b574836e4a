// Package canary plants secrets in texts, and looks for them in what a program shows. Tests of every outlet use it.
package canary

import (
	"encoding/base64"
	"errors"
	"strings"
)

// forms are the ways in which an error of a cloud, a program or an API server repeats a secret.
var forms = map[string]string{
	"a flag and its value":      "exec manager --token SECRET --v=2",
	"a flag with =":             "exec manager --api_key=SECRET",
	"a flag of a database":      "exec manager --db-pass SECRET",
	"basic authentication":      "exec manager --basic-auth=u:SECRET",
	"a header":                  "request with Authorization: Bearer SECRET was refused",
	"a URL":                     `Post "https://jane:SECRET@cloud.example.com/v3": EOF`,
	"a connection string":       "dialing Endpoint=sb://x.example.com/;SharedAccessKey=SECRET",
	"a signed URL":              "fetching https://x.blob.example.com/c?sv=2020&sig=SECRET&se=2030",
	"a variable of environment": "OS_PASSWORD=SECRET is not accepted",
	"a PEM key":                 "reading -----BEGIN EC PRIVATE KEY-----\nSECRET\n-----END EC PRIVATE KEY-----\n: no key",
}

// Secrets are planted secrets: where each was planted.
type Secrets map[string]string

// Plant returns texts that hold a secret each, one for every form.
func Plant() (Secrets, []string) {
	secrets, texts := Secrets{}, []string{}
	for form, text := range forms {
		secret := "Canary" + strings.ReplaceAll(form, " ", "") + "7hunter2"
		secret = strings.ReplaceAll(secret, "=", "")
		secrets[secret] = form
		texts = append(texts, strings.ReplaceAll(text, "SECRET", secret))
	}
	return secrets, texts
}

// PlantError returns an error that holds a secret in every form.
func PlantError() (Secrets, error) {
	secrets, texts := Plant()
	return secrets, errors.New(strings.Join(texts, "\n"))
}

// In returns the forms of the secrets that a text shows, as they are or in base64.
func (s Secrets) In(text string) []string {
	var shown []string
	for secret, form := range s {
		if strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret))) {
			shown = append(shown, form)
		}
	}
	return shown
}
