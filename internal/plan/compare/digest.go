package compare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// acceptances returns which checks a plan accepts and why, sorted by code. Everything else of a finding are words for
// readers.
func acceptances(p *v1.Plan) [][2]string {
	var out [][2]string
	for _, f := range Accepted(p) {
		out = append(out, [2]string{f.Code, f.Accepted})
	}
	slices.SortFunc(out, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return out
}

// Digest is the SHA-256 of what a plan does and of what it was made from. That is its cluster, direction, options,
// facts, steps, and which findings are accepted. Words for readers, when it was made and where it stops are left out.
// So the plan in a file, the one in the journal and the one that is made of the same cluster again have the same.
//
// That of a hosted control plane is of its steps alone, since it is what a person confirms of them.
func Digest(p *v1.Plan) string {
	if p.Cluster.Seed != "" {
		return Sum(p.Steps)
	}
	facts := slices.Clone(p.Facts)
	for i := range facts {
		facts[i].Detail = ""
	}
	return sumOf(struct {
		Cluster, Direction, Strategy string
		Options                      v1.Options
		Facts                        []v1.Fact
		Steps                        []v1.Step
		Accepted                     [][2]string `json:",omitempty"` // a plan without any has the digest of earlier versions
	}{p.Cluster.UID, p.Direction, p.Strategy, p.Options, facts, WithoutWords(p.Steps), acceptances(p)})
}

// Seal is the SHA-256 of all that a run reads of a plan. Unlike the Digest of a hosted control plane, it holds options,
// facts and the cluster as well. It is for programs that keep it and compare; people are shown the Digest.
func Seal(p *v1.Plan) string {
	facts := slices.Clone(p.Facts)
	for i := range facts {
		facts[i].Detail = ""
	}
	return sumOf(struct {
		Cluster             v1.Cluster
		Direction, Strategy string
		Until               string
		Options             v1.Options
		Facts               []v1.Fact
		Steps               []v1.Step
		Accepted            [][2]string `json:",omitempty"`
	}{p.Cluster, p.Direction, p.Strategy, p.Until, p.Options, facts, WithoutWords(p.Steps), acceptances(p)})
}

// Sum is the SHA-256 of what steps do. Words for readers are left out.
func Sum(steps []v1.Step) string { return sumOf(WithoutWords(steps)) }

// WithoutWords returns steps without what only readers see: titles, reasons, commands and estimates.
func WithoutWords(steps []v1.Step) []v1.Step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Title, out[i].Why, out[i].Undo, out[i].Manual, out[i].EstimateSeconds = "", "", "", nil, 0
	}
	return out
}

func sumOf(doc any) string {
	data, err := json.Marshal(doc)
	if err != nil {
		panic(err) // texts, numbers, and maps of texts marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
