// Package safeyaml decides which YAML documents are decoded. Those of hosts and of user clusters may be an attacker's.
package safeyaml

import (
	"bytes"
	"errors"
	"fmt"

	nodes "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// growth is how many bytes aliases may add to a document. sigs.k8s.io/yaml writes what an anchor holds once for each
// alias, and 100 KiB became 850 MB.
const growth = 1 << 20

// ErrTooLarge is that a document would become too large by its aliases.
var ErrTooLarge = fmt.Errorf("its aliases would add more than %d bytes to it: write out what they stand for", growth)

var errCycle = errors.New("an anchor holds itself")

// Unmarshal is that of sigs.k8s.io/yaml for documents that pass Check.
func Unmarshal(data []byte, into any) error {
	if err := Check(data); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// UnmarshalStrict is that of sigs.k8s.io/yaml for documents that pass Check.
func UnmarshalStrict(data []byte, into any) error {
	if err := Check(data); err != nil {
		return err
	}
	return yaml.UnmarshalStrict(data, into)
}

// ToJSONStrict is YAMLToJSONStrict of sigs.k8s.io/yaml for documents that pass Check.
func ToJSONStrict(data []byte) ([]byte, error) {
	if err := Check(data); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(data)
}

// ErrNotWeighed is that what the aliases of a document would add to it is not known. sigs.k8s.io/yaml has another
// parser. It takes some documents that the one here does not, as it may read the first document alone.
var ErrNotWeighed = errors.New("it has aliases and is no YAML as a whole: write out what they stand for")

// Check says why a document must not be decoded; nil where it may. One without aliases that is no YAML is left to the
// decoder, which says where.
func Check(data []byte) (err error) {
	if !bytes.ContainsRune(data, '&') || !bytes.ContainsRune(data, '*') {
		return nil
	}
	var document nodes.Node
	defer func() { // the parser panics on some documents
		if recover() != nil {
			err = ErrNotWeighed
		}
	}()
	if nodes.Unmarshal(data, &document) != nil { // its words quote the document
		return ErrNotWeighed
	}
	w := weigher{limit: len(data) + growth, known: map[*nodes.Node]int{}}
	_, err = w.weighNode(&document)
	return err
}

// weigher adds up what a document holds when each alias is written out. What an anchor holds is added up once.
type weigher struct {
	limit int
	known map[*nodes.Node]int
}

// pending marks a node whose weight is being added up.
const pending = -1

func (w *weigher) weighNode(n *nodes.Node) (int, error) {
	if n.Kind == nodes.AliasNode {
		return w.weighNode(n.Alias)
	}
	if weight, ok := w.known[n]; ok {
		if weight == pending {
			return 0, errCycle
		}
		return weight, nil
	}
	w.known[n] = pending
	sum := len(n.Value)
	for _, child := range n.Content {
		weight, err := w.weighNode(child)
		if err != nil {
			return 0, err
		}
		if sum += weight + 1; sum > w.limit {
			return 0, ErrTooLarge
		}
	}
	w.known[n] = sum
	return sum, nil
}
