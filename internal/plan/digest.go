package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Digest is the SHA-256 of what a plan does and of what it was made from: cluster, direction, options, facts and steps. Words for readers, when it was made and where it
// stops are left out, so that the plan in a file, the one in the journal and the one that is made of the same cluster again have the same.
func Digest(p *v1.Plan) string {
	bare := slices.Clone(p.Steps)
	for i := range bare {
		bare[i].Title, bare[i].Why, bare[i].Undo, bare[i].Manual, bare[i].EstimateSeconds = "", "", "", nil, 0
	}
	facts := slices.Clone(p.Facts)
	for i := range facts {
		facts[i].Detail = ""
	}
	data, err := json.Marshal(struct {
		Cluster, Seed, Direction, Strategy string
		Options                            v1.Options
		Facts                              []v1.Fact
		Steps                              []v1.Step
	}{p.Cluster.UID, p.Cluster.Seed, p.Direction, p.Strategy, p.Options, facts, bare})
	if err != nil {
		panic(err) // texts, numbers, and maps of texts marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
