package azuresim

import (
	"fmt"
	"net/http"
	"strings"
)

// OperationFault has operations end as failed, after their requests were accepted. An object that is there then has the
// provisioning state Failed.
type OperationFault struct {
	// After is how many operations go well before.
	After int
	// Times is how many fail; 0 for all from then on.
	Times int
	// Path is a part of the path of what the operations change, in whatever case; empty for all.
	Path string
	// AfterEffect lets the change have its effect. Azure leaves what was written, and says that it is not provisioned.
	AfterEffect bool
	// Code and Message are the error, such as InternalServerError and a sentence.
	Code, Message string
}

// FailOperations has operations fail from now on; nil has none of them fail.
func (c *Cloud) FailOperations(f *OperationFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing, c.failures = f, 0; f != nil {
		copied := *f
		c.failing = &copied
	}
}

// Failures is how many operations have failed for the fault that there is.
func (c *Cloud) Failures() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failures
}

// operation is that of a change which was accepted.
type operation struct {
	left  int    // how often it is asked for before it has ended
	error object // with which it ends; nil where it succeeds
}

// operationOf begins the operation of a change of the object at a path, which has its effect at once unless it is to
// fail. The answer says where it is asked for. The effect is on an object with the provisioning state that is given.
func (c *Cloud) operationOf(in *request, path string, effect func(state string)) {
	failure := c.failureOf(in.path)
	begun := &operation{left: max(1, c.options.Polls)}
	state := "Succeeded"
	if failure != nil {
		begun.error = object{"code": failure.Code, "message": failure.Message}
		state = "Failed"
	}
	if failure == nil || failure.AfterEffect {
		effect(state)
	} else if have := c.objects[path]; have != nil {
		properties, _ := have["properties"].(object)
		properties["provisioningState"] = state
		c.put(path, have)
	}
	c.number++
	id := fmt.Sprintf("operation-%d", c.number)
	c.operations[id] = begun
	in.header.Set("Azure-AsyncOperation", in.at+"/subscriptions/"+Subscription+
		"/providers/Microsoft.Network/locations/"+Location+"/operations/"+id+"?api-version="+apiVersions[0])
}

// failureOf is the fault by which the operation of a change will fail; nil for none.
func (c *Cloud) failureOf(path string) *OperationFault {
	f := c.failing
	if f == nil || !strings.Contains(path, strings.ToLower(f.Path)) {
		return nil
	}
	if f.After > 0 {
		f.After--
		return nil
	}
	if f.Times > 0 && c.failures == f.Times {
		return nil
	}
	c.failures++
	return f
}

// askFor answers what has become of an operation.
func (c *Cloud) askFor(in *request, id string) (int, object, *refusal) {
	asked := c.operations[id]
	switch {
	case asked == nil:
		return 0, nil, refuse(http.StatusNotFound, "OperationNotFound", "The operation was not found.")
	case asked.left > 0:
		asked.left--
		in.header.Set("Retry-After-Ms", "5")
		in.header.Set("Retry-After", "0") // for older clients, which would wait for 5 s
		return http.StatusOK, object{"status": "InProgress"}, nil
	case asked.error != nil:
		return http.StatusOK, object{"status": "Failed", "error": asked.error}, nil
	}
	return http.StatusOK, object{"status": "Succeeded"}, nil
}
