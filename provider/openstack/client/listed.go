package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// listed are the collections that are read as lists. An answer has the list under the name, with underscores.
var listed = []string{
	"servers", "flavors", "ports", "networks", "subnets", "routers", "floatingips", "security-groups",
	"security-group-rules", "loadbalancers", "listeners", "pools", "members", "healthmonitors",
}

// withLists refuses an answer without the list that was asked for, such as {}. The SDK takes it for an empty list: a
// load balancer would be made a second time, or its Service let go without it.
type withLists struct{ next http.RoundTripper }

// shortest is how long an answer is at least that has something in its list.
const shortest = 256

func (t withLists) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	at := strings.TrimSuffix(request.URL.Path, "/detail")
	collection := at[strings.LastIndexByte(at, '/')+1:]
	if !slices.Contains(listed, collection) {
		return answer, nil
	}
	body := bufio.NewReaderSize(answer.Body, shortest)
	data, err := body.Peek(shortest)
	if errors.Is(err, io.EOF) && !hasList(data, strings.ReplaceAll(collection, "-", "_")) {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("the answer to GET %s has no list of %s", request.URL.Path, collection)
	}
	answer.Body = struct { // another error comes again with the reads
		io.Reader
		io.Closer
	}{body, answer.Body}
	return answer, nil
}

// hasList reports whether a whole answer has a list under a name. What is no JSON is for the SDK to judge.
func hasList(data []byte, name string) bool {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return true
	}
	return strings.HasPrefix(string(fields[name]), "[")
}
