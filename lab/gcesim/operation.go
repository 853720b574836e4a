package gcesim

import (
	"fmt"
	"maps"
	"strings"
)

// OperationFault has operations end with an error. The changes that they are of have no effect.
type OperationFault struct {
	// After is how many operations go well before.
	After int
	// Path is a part of the path of what the operations change; empty for all.
	Path string
	// Status, Code and Message are the error, such as 403, QUOTA_EXCEEDED and a sentence.
	Status        int
	Code, Message string
}

// FailOperations has operations fail from now on; nil has none of them fail.
func (c *Cloud) FailOperations(f *OperationFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing, c.isFailing = f, false; f != nil {
		copied := *f
		c.failing = &copied
	}
}

// IsFailing reports whether an operation has failed for the fault that there is.
func (c *Cloud) IsFailing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isFailing
}

// operation is that of a change, which has its effect at once unless the operation is to fail. It is done once it was
// asked for.
func (c *Cloud) operation(target string, effect func()) object {
	failure := c.failureOf(target)
	if failure == nil {
		effect()
	}
	scope := "global"
	if parts := strings.Split(target, "/"); parts[0] != scope {
		scope = strings.Join(parts[:2], "/")
	}
	name := fmt.Sprintf("operation-%d", c.number+1)
	at := scope + "/operations/" + name
	if failure != nil {
		c.failed[at] = failure
	}
	return c.put(at, object{"name": name, "status": "RUNNING", "targetLink": c.link(target)})
}

// failureOf is the error with which the operation of a change will end; nil for none.
func (c *Cloud) failureOf(target string) object {
	f := c.failing
	if f == nil || !strings.Contains(target, f.Path) {
		return nil
	}
	if f.After > 0 {
		f.After--
		return nil
	}
	c.isFailing = true
	return object{
		"httpErrorStatusCode": f.Status, "httpErrorMessage": strings.ReplaceAll(f.Code, "_", " "),
		"error": object{"errors": []any{object{"code": f.Code, "message": f.Message}}},
	}
}

// finish has an operation be done.
func (c *Cloud) finish(at string) {
	c.objects[at]["status"] = "DONE"
	maps.Copy(c.objects[at], c.failed[at])
	delete(c.failed, at)
}
