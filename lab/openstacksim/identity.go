package openstacksim

import (
	"net/http"
	"time"
)

// identity is Keystone: tokens by password, of the one project.
func (c *Cloud) identity(in request) (answer, *refusal) {
	if in.Method != http.MethodPost || template(in.path) != "auth/tokens" {
		return answer{}, unknown(in)
	}
	user, _ := dig(in.body, "auth", "identity", "password", "user").(object)
	name, _ := user["name"].(string)
	password, _ := user["password"].(string)
	if want, ok := c.users[name]; !ok || want != password {
		return answer{}, refuse(http.StatusUnauthorized, "error", "The request you have made requires authentication.")
	}
	token := "token-" + c.newID()
	c.tokens[token] = true
	endpoint := func(kind, name, path string) object {
		return object{"type": kind, "name": name, "id": kind, "endpoints": []object{
			{
				"id":        kind,
				"interface": "public",
				"region":    c.options.Region,
				"region_id": c.options.Region,
				"url":       in.base() + path,
			},
		}}
	}
	body := object{"token": object{
		"methods": []string{"password"}, "expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"issued_at": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"user":      object{"id": "u-" + name, "name": name, "domain": object{"id": "default", "name": "Default"}},
		"catalog": []object{
			endpoint("identity", "keystone", "/identity/v3"), endpoint("compute", "nova", "/compute/v2.1"),
			endpoint("network", "neutron", "/network"), endpoint("load-balancer", "octavia", "/load-balancer"),
		},
	}}
	if dig(in.body, "auth", "scope", "project") != nil {
		body["token"].(object)["project"] = object{
			"id":     Project,
			"name":   "demo",
			"domain": object{"id": "default", "name": "Default"},
		} //nolint:forcetypeassert // made above
	}
	return answer{status: http.StatusCreated, body: body, header: map[string]string{"X-Subject-Token": token}}, nil
}

// dig follows keys into a body; nil where there is nothing.
func dig(body object, keys ...string) any {
	var at any = body
	for _, key := range keys {
		inner, ok := at.(object)
		if !ok {
			return nil
		}
		at = inner[key]
	}
	return at
}

// RevokeTokens has every token refused from now on; a new one can be had with the password.
func (c *Cloud) RevokeTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

// SetPassword changes the password of a user.
func (c *Cloud) SetPassword(user, password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users[user] = password
}
