package openstacksim

import (
	"net/http"
	"slices"
	"time"
)

// credential is an application credential: it is of one user, and for the one project.
type credential struct{ id, name, user, secret string }

func unauthorized() *refusal {
	return refuse(http.StatusUnauthorized, "error", "The request you have made requires authentication.")
}

// identity is Keystone: tokens by password or by an application credential, of the one project.
func (c *Cloud) identity(in request) (answer, *refusal) {
	if in.Method != http.MethodPost || template(in.path) != "auth/tokens" {
		return answer{}, unknown(in)
	}
	var (
		name, method string
		refused      *refusal
	)
	methods, _ := dig(in.body, "auth", "identity", "methods").([]any)
	if len(methods) == 1 {
		method, _ = methods[0].(string)
	}
	scoped := dig(in.body, "auth", "scope") != nil
	switch method {
	case "password":
		name, refused = c.userOfPassword(in.body)
	case "application_credential":
		name, refused = c.userOfCredential(in.body)
	default:
		refused = unknown(in)
	}
	if refused != nil {
		return answer{}, refused
	}
	if method == "application_credential" {
		if scoped {
			return answer{}, refuse(http.StatusUnauthorized, "error", "Application credentials cannot request a scope.")
		}
		scoped = true // the credential says for which project it is
	} else if project, ok := dig(in.body, "auth", "scope", "project").(object); ok && !isOwnProject(project) {
		return answer{}, unauthorized() // as Keystone answers to a project in which the user has no role
	}
	token := "token-" + c.newID()
	c.tokens[token] = true
	body := object{"token": object{
		"methods": []string{method}, "expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"),
		"issued_at": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
		"user":      object{"id": "u-" + name, "name": name, "domain": object{"id": "default", "name": "Default"}},
		"catalog":   c.catalog(in.base()),
	}}
	if scoped {
		body["token"].(object)["project"] = object{
			"id":     Project,
			"name":   "demo",
			"domain": object{"id": "default", "name": "Default"},
		} //nolint:forcetypeassert // made above
	}
	return answer{status: http.StatusCreated, body: body, header: map[string]string{"X-Subject-Token": token}}, nil
}

// catalog are the services, but for those that LeaveOut has named.
func (c *Cloud) catalog(base string) []object {
	list := []object{}
	for _, service := range []struct{ kind, name, path string }{
		{identityService, "keystone", "/identity/v3"},
		{computeService, "nova", "/compute/v2.1"},
		{networkService, "neutron", "/network"},
		{balancerService, "octavia", "/load-balancer"},
	} {
		if slices.Contains(c.absent, service.kind) {
			continue
		}
		list = append(list, object{"type": service.kind, "name": service.name, "id": service.kind, "endpoints": []object{{
			"id":        service.kind,
			"interface": "public",
			"region":    c.options.Region,
			"region_id": c.options.Region,
			"url":       base + service.path,
		}}})
	}
	return list
}

// LeaveOut has the catalogs of new tokens lack services: compute, network or load-balancer.
func (c *Cloud) LeaveOut(services ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = services
}

// isOwnProject reports whether a scope is the one project, by its ID or its name.
func isOwnProject(project object) bool {
	if id := text(project, "id"); id != "" {
		return id == Project
	}
	return text(project, "name") == "demo"
}

func (c *Cloud) userOfPassword(body object) (name string, refused *refusal) {
	user, _ := dig(body, "auth", "identity", "password", "user").(object)
	if want, ok := c.users[text(user, "name")]; !ok || want != text(user, "password") {
		return "", unauthorized()
	}
	return text(user, "name"), nil
}

// userOfCredential takes the credential's ID, or its name with that of its user.
func (c *Cloud) userOfCredential(body object) (name string, refused *refusal) {
	given, _ := dig(body, "auth", "identity", "application_credential").(object)
	user, _ := given["user"].(object)
	for _, known := range c.credentials {
		named := text(given, "id") == known.id
		if text(given, "id") == "" {
			named = text(given, "name") == known.name && text(user, "name") == known.user
		}
		if named && text(given, "secret") == known.secret {
			return known.user, nil
		}
	}
	return "", unauthorized()
}

// AddApplicationCredential adds an application credential of the user for the project, and returns its ID.
func (c *Cloud) AddApplicationCredential(name, secret string) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := credential{c.newID(), name, User, secret}
	c.credentials = append(c.credentials, made)
	return made.id
}

// DeleteApplicationCredential deletes an application credential. Its tokens are refused from then on.
func (c *Cloud) DeleteApplicationCredential(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credentials = slices.DeleteFunc(c.credentials, func(known credential) bool { return known.id == id })
	clear(c.tokens)
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
