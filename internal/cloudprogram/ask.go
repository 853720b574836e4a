package cloudprogram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/document"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/jsonweight"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Bounds of what a program answers: the largest supported cluster's is a tenth of it.
const (
	mostBytes  = 64 << 20
	mostMemory = 512 << 20
	mostWords  = 4 << 10 // of standard error
	waitDelay  = 5 * time.Second
)

// TimeLimit is how long a program may take for an answer. It ends by itself then, also when transplant was killed.
const TimeLimit = 2 * time.Minute

// source is a cloud behind its provider's program.
type source struct {
	cloud, program string
	settings       map[string]string
}

// Check refuses a value of --cloud that names no cloud. No program is asked.
func (p Programs) Check() error {
	if p.Cloud == "" {
		return nil
	}
	cloud, _, err := parseCloud(p.Cloud)
	if err == nil && !slices.Contains(Ours, cloud) { // a word that is mistyped has no program
		_, err = p.find(cloud)
	}
	return err
}

// Open returns the source that --cloud names, once its program has found the settings right.
func (p Programs) Open(ctx context.Context) (inventory.Source, error) {
	cloud, settings, err := parseCloud(p.Cloud)
	if err != nil {
		return nil, err
	}
	program, err := p.find(cloud)
	if err != nil {
		return nil, err
	}
	if _, err := ask(ctx, cloud, program, Inventory, Question{OnlyOpen: true, Settings: settings}); err != nil {
		return nil, fmt.Errorf("cloud %q: %w", p.Cloud, err)
	}
	return &source{cloud: cloud, program: program, settings: settings}, nil
}

// Inventory asks the program. Without an answer each part is unknown.
func (s *source) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	a, err := ask(ctx, s.cloud, s.program, Inventory, Question{Settings: s.settings, Nodes: nodes})
	if err == nil && (a.Inventory == nil || a.Inventory.Provider != s.cloud) {
		err = fmt.Errorf("%s answered without an inventory of %s", filepath.Base(s.program), s.cloud)
	}
	if err == nil {
		err = onlyAsked(nodes, a.Inventory.Instances, func(i v1.CloudInstance) string { return i.Node })
	}
	if err != nil {
		out := &v1.CloudInventory{Provider: s.cloud}
		for _, part := range inventory.Parts {
			out.Errors = append(out.Errors, part+": "+err.Error())
		}
		return out
	}
	a.Inventory.Errors = mask.Texts(a.Inventory.Errors)
	return a.Inventory
}

// Preview asks the program of the provider that the cluster shows what it would find and write about each node.
func (p Programs) Preview(ctx context.Context, cloud string, config []byte, nodes []v1.Node) (*v1.Preview, error) {
	if !p.MayPreview(cloud) {
		return nil, fmt.Errorf(
			"the code of provider %q is not in this version of transplant, so it cannot be asked; it has %s",
			cloud,
			known(),
		)
	}
	if named, _, _ := parseCloud(p.Cloud); named != cloud {
		p.Path = "" // it is that of another cloud
	}
	program, err := p.find(cloud)
	if err != nil {
		return nil, err
	}
	a, err := ask(ctx, cloud, program, Preview, Question{CloudConfig: config, Nodes: nodes})
	if err != nil {
		return nil, err
	}
	if a.Preview == nil || a.Preview.Provider == "" {
		return nil, fmt.Errorf("%s answered without a preview", filepath.Base(program))
	}
	if err := onlyAsked(nodes, a.Preview.Nodes, func(n v1.NodePreview) string { return n.Node }); err != nil {
		return nil, err
	}
	a.Preview.Error = mask.Text(a.Preview.Error)
	for i := range a.Preview.Nodes {
		a.Preview.Nodes[i].Error = mask.Text(a.Preview.Nodes[i].Error)
	}
	return a.Preview, nil
}

// canRemove are those of Ours whose programs remove what is left of Services that are gone.
var canRemove = []string{"openstack"}

// Orphans asks the program of --cloud about objects of Services that may be gone, or has it remove one of them.
func (p Programs) Orphans(ctx context.Context, nodes []v1.Node, q OrphanQuestion) ([]v1.Orphan, error) {
	cloud, settings, err := parseCloud(p.Cloud)
	if err != nil {
		return nil, err
	}
	if slices.Contains(Ours, cloud) && !slices.Contains(canRemove, cloud) {
		return nil, fmt.Errorf(
			"nothing is removed on %s: remove what is left there by the cloud's own tools; it can be done on %s",
			cloud, strings.Join(canRemove, " and "),
		)
	}
	program, err := p.find(cloud)
	if err != nil {
		return nil, err
	}
	a, err := ask(ctx, cloud, program, Orphans, Question{Settings: settings, Nodes: nodes, Orphans: &q})
	if err != nil {
		return nil, err
	}
	answered := map[string]int{}
	for i, o := range a.Orphans {
		answered[o.ID]++
		a.Orphans[i].Reason = mask.Text(o.Reason)
	}
	for _, id := range q.IDs {
		if answered[id] != 1 || len(a.Orphans) != len(q.IDs) {
			return nil, fmt.Errorf("%s answered about other objects than it was asked about", filepath.Base(program))
		}
	}
	return a.Orphans, nil
}

// onlyAsked refuses an answer about nodes that were not asked about, or twice about one. What the rest of it means is
// not known then.
func onlyAsked[T any](nodes []v1.Node, answered []T, nodeOf func(T) string) error {
	left := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		left[n.Name] = true
	}
	for _, a := range answered {
		name := nodeOf(a)
		if !left[name] {
			return fmt.Errorf("the provider's program answered for node %q, which it was not asked about, or twice", name)
		}
		left[name] = false
	}
	return nil
}

// ask runs a program for one question. Its first argument is not the name of the file. By that transplant finds the
// managers that run on a machine, and would take this program for one.
func ask(ctx context.Context, cloud, program, command string, q Question) (*Answer, error) {
	q.Protocol = Protocol
	input, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, TimeLimit+waitDelay)
	defer cancel()
	out, words := &first{most: mostBytes, over: cancel}, &first{most: mostWords}
	cmd := exec.CommandContext(ctx, program, command) //nolint:gosec // the administrator's own choice; see Programs
	cmd.Args[0] = Argument0 + cloud
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(input), out, words, waitDelay
	err = cmd.Run()
	name := filepath.Base(program)
	if out.cut {
		return nil, fmt.Errorf("%s answered with more than %d bytes, which no cluster needs", name, mostBytes)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("running %s %s: %w%s", program, command, err, stderrText(words.data))
	}
	answer, err := decodeAnswer(out.data)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: use that of the same release as transplant", program, command, err)
	}
	if answer.Error != "" {
		return nil, errors.New(mask.Text(answer.Error))
	}
	return answer, nil
}

// Argument0 is what the first argument of a program begins with that is asked about a cloud.
const Argument0 = "transplant-looks-at-"

// stderrText is the end of what a program wrote to standard error.
func stderrText(words []byte) string {
	if words = bytes.TrimSpace(words); len(words) == 0 {
		return ""
	}
	return ": " + mask.Text(string(words))
}

// decodeAnswer reads an answer. Its number comes first: of another one, no field could be judged.
func decodeAnswer(data []byte) (*Answer, error) {
	if _, err := jsonweight.Of(data, reflect.TypeFor[Answer](), mostMemory); err != nil {
		return nil, err
	}
	var head struct {
		Protocol int `json:"protocol"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("it answered with no JSON: %w", err)
	}
	if head.Protocol != Protocol {
		return nil, fmt.Errorf("it answers by protocol %d, not %d", head.Protocol, Protocol)
	}
	var out Answer
	if err := document.Strict(data, &out); err != nil {
		return nil, fmt.Errorf("reading its answer: %w", err)
	}
	return &out, nil
}

// first keeps the first bytes that are written to it.
type first struct {
	data []byte
	most int
	cut  bool
	over func() // called when there are more
}

func (w *first) Write(p []byte) (int, error) {
	room := w.most - len(w.data)
	if len(p) <= room {
		w.data = append(w.data, p...)
		return len(p), nil
	}
	w.data, w.cut = append(w.data, p[:room]...), true
	if w.over != nil {
		w.over()
	}
	return len(p), nil
}
