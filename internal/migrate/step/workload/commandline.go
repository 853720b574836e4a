package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
)

// The journal is a ConfigMap, which more people read than the Deployments of a control plane. So it does not keep a
// command line to put it back. It keeps what the step changed in one, and a hash of each state with secrets masked.
// Everything else is taken from the live object. A secret that was rotated since stays rotated.

// CommandLine is what a container runs.
type CommandLine struct{ Command, Args []string }

// programWords are the words of the component's own program.
func (l CommandLine) programWords() []string {
	return commandline.Unwrapped(slices.Concat(l.Command, l.Args))
}

func commandLineOf(c map[string]any) CommandLine {
	return CommandLine{object.Strings(c, "command"), object.Strings(c, "args")}
}

// CommandBack takes the change of a step back.
type CommandBack struct {
	// Was and Is are the hashes of the command line before and after the step, with secrets masked.
	Was string `json:"was"`
	Is  string `json:"is"`
	// Changes lead from what is to what was, in order.
	Changes []tokenChange `json:"changes,omitempty"`
	// Flags are the values that the edited flags had; one that was not there is not in it.
	Flags map[string]string `json:"flags,omitempty"`
}

// tokenChange replaces some pieces of a command line.
type tokenChange struct {
	// At is the first piece of the line as it is, Drop how many go.
	At   int `json:"at"`
	Drop int `json:"drop,omitempty"`
	// Put are the pieces that come in their place.
	Put []putPiece `json:"put,omitempty"`
}

// putPiece is a piece of a command line. It is a text that the step edited, or a piece of the line as it is, which only
// moved.
type putPiece struct {
	Text string `json:"text,omitempty"`
	From int    `json:"from,omitempty"` // counted from 1
	// before is where it stands in the line that is put back, counted from 0.
	before int
}

const (
	endOfWord    = "\x00"
	endOfCommand = "\x01"
)

// piece matches the pieces of a word that holds JSON: a program's command that another one starts (see Unwrapped).
var piece = regexp.MustCompile(`"(?:\\.|[^"\\])*"|[^"]+|"`)

// Pieces splits a command line so that joining the pieces gives it back.
func (l CommandLine) Pieces() []string {
	var out []string
	add := func(words []string) {
		for _, w := range words {
			if strings.HasPrefix(w, "{") || strings.Contains(w, "={") {
				out = append(out, piece.FindAllString(w, -1)...)
			} else {
				out = append(out, w)
			}
			out = append(out, endOfWord)
		}
	}
	add(l.Command)
	out = append(out, endOfCommand)
	add(l.Args)
	return out
}

// joinPieces is the command line of some pieces.
func joinPieces(pieces []string) CommandLine {
	command, args, _ := strings.Cut(strings.Join(pieces, ""), endOfCommand)
	words := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(strings.TrimSuffix(text, endOfWord), endOfWord)
	}
	return CommandLine{words(command), words(args)}
}

// Sum is the hash of a command line with its secrets masked: a hash of a weak secret would give it away.
func (l CommandLine) Sum() string {
	data, err := json.Marshal([][]string{mask.Command(l.Command), mask.Command(l.Args)})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return hostaccess.SHA256(data)
}

func (l CommandLine) edited(edits []v1.Edit) (CommandLine, error) {
	command, args, err := commandline.ApplyArguments(l.Command, l.Args, flagEdits(edits))
	return CommandLine{command, args}, err
}

// takeBackOf is what leads from a step's command line to the one before it. What it would keep beyond the flags that
// the step edits is refused, since it may be a secret.
func takeBackOf(s v1.Step, was, is CommandLine) (*CommandBack, error) {
	out := &CommandBack{Was: was.Sum(), Is: is.Sum()}
	names := map[string]bool{}
	flags := commandline.FlagsOf(commandline.Unwrapped(slices.Concat(was.Command, was.Args)))
	for _, e := range flagEdits(s.Edits) {
		name := strings.TrimLeft(e.Name, "-")
		names[name] = true
		if value, there := flags[name]; there {
			if mask.Named(name, value) != value {
				return nil, secretEdited(s, "--"+name)
			}
			if out.Flags == nil {
				out.Flags = map[string]string{}
			}
			out.Flags[name] = value
		}
	}
	from, to := is.Pieces(), was.Pieces()
	out.Changes = ChangesOf(from, to)
	for _, c := range out.Changes {
		for i, p := range c.Put {
			if isPartOfEdit(to[:p.before+1], names) {
				continue
			}
			at := slices.Index(from, p.Text)
			if at < 0 {
				return nil, secretEdited(s, "what surrounds its flags")
			}
			c.Put[i].From = at + 1
		}
	}
	for _, c := range out.Changes {
		for i := range c.Put {
			if c.Put[i].From > 0 {
				c.Put[i].Text = ""
			}
		}
	}
	back, err := out.apply(is)
	if err != nil || !slices.Equal(back.Command, was.Command) || !slices.Equal(back.Args, was.Args) {
		return nil, fmt.Errorf("%s: the command of %s could not be put back as it is; "+
			"write it as a list of --name=value and run the same command again", s.Ref, s.Component)
	}
	return out, nil
}

func secretEdited(s v1.Step, what string) error {
	return fmt.Errorf("%s: the journal would keep a secret of the command of %s to put it back (%s); "+
		"move it into a Secret or a file, then run the same command again", s.Ref, s.Component, what)
}

var flagOfPiece = regexp.MustCompile(`^[",\s]*--?([A-Za-z][\w.-]*)`)

// isPartOfEdit reports whether the last of some pieces is a flag that the step edits, the value of one, or holds
// nothing at all.
func isPartOfEdit(pieces []string, names map[string]bool) bool {
	last := pieces[len(pieces)-1]
	if !hasText(last) {
		return true
	}
	if found := flagOfPiece.FindStringSubmatch(last); found != nil {
		return names[found[1]]
	}
	for _, p := range slices.Backward(pieces[:len(pieces)-1]) {
		if hasText(p) {
			found := flagOfPiece.FindStringSubmatch(p)
			return found != nil && names[found[1]] && !strings.Contains(p, "=")
		}
	}
	return false
}

func hasText(p string) bool {
	return strings.ContainsFunc(p, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// ChangesOf is the shortest way from one list of pieces to another.
func ChangesOf(from, to []string) []tokenChange {
	common := make([][]int, len(from)+1) // how many pieces are common from here on
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []tokenChange
	change := func(at int) *tokenChange {
		if n := len(out); n > 0 && out[n-1].At+out[n-1].Drop == at {
			return &out[n-1]
		}
		out = append(out, tokenChange{At: at})
		return &out[len(out)-1]
	}
	for i, j := 0, 0; i < len(from) || j < len(to); {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			i, j = i+1, j+1
		case j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1]:
			change(i).Drop++
			i++
		default:
			c := change(i)
			c.Put = append(c.Put, putPiece{Text: to[j], before: j})
			j++
		}
	}
	return out
}

// apply takes the change back from the command line that the step made.
func (b *CommandBack) apply(is CommandLine) (CommandLine, error) {
	from, at := is.Pieces(), 0
	var out []string
	for _, c := range b.Changes {
		if c.At < at || c.Drop < 0 || c.At+c.Drop > len(from) {
			return CommandLine{}, errors.New("the journal's change does not fit the command line")
		}
		out = append(out, from[at:c.At]...)
		for _, p := range c.Put {
			switch {
			case p.From < 0 || p.From > len(from):
				return CommandLine{}, errors.New("the journal's change does not fit the command line")
			case p.From > 0:
				out = append(out, from[p.From-1])
			default:
				out = append(out, p.Text)
			}
		}
		at = c.At + c.Drop
	}
	return joinPieces(append(out, from[at:]...)), nil
}

// inverse gives the edited flags the values that they had, wherever they stand now. Of a list only the items that the
// step has changed are put back: the others are as their owner has them by now.
func (b *CommandBack) inverse(p *v1.Plan, s v1.Step, now CommandLine) (CommandLine, error) {
	var edits []v1.Edit
	seen := map[string]bool{}
	live := commandline.FlagsOf(now.programWords())
	for _, e := range flagEdits(s.Edits) {
		name := strings.TrimLeft(e.Name, "-")
		if seen[name] {
			continue
		}
		seen[name] = true
		value, there := b.Flags[name]
		if value = allowed.RestoreValue(p, s, name, live[name], value); there || value != "" {
			edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: name, Value: value})
		} else {
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: name})
		}
	}
	return now.edited(edits)
}

// takenBack is the command line from before a step, made of the live one. It goes through the states that this
// migration made; false when the live one is none of them.
func (x Workload) takenBack(s v1.Step, was WorkloadBefore, live CommandLine) (CommandLine, bool) {
	type state struct {
		step v1.Step
		was  WorkloadBefore
	}
	var all []state
	for _, there := range x.Env.Journal.Doc().Plan.Steps {
		raw := x.Env.Journal.Record(there.ID).Before
		var before WorkloadBefore
		if there.Ref == s.Ref && raw != "" && json.Unmarshal([]byte(raw), &before) == nil && before.isEdited() {
			all = append(all, state{there, before})
		}
	}
	now := live
	seen := map[string]bool{}
	for !was.is(now) {
		sum := now.Sum()
		if seen[sum] {
			return CommandLine{}, false
		}
		seen[sum] = true
		i := slices.IndexFunc(all, func(a state) bool { return a.was.producesCommand(a.step, now) })
		if i < 0 {
			if i = slices.IndexFunc(all, func(a state) bool { return a.was.is(now) }); i < 0 {
				return CommandLine{}, false
			}
			next, err := now.edited(all[i].step.Edits)
			if err != nil {
				return CommandLine{}, false
			}
			now = next
			continue
		}
		if all[i].was.Back == nil {
			now = CommandLine{all[i].was.Command, all[i].was.Args}
			continue
		}
		next, err := all[i].was.Back.apply(now)
		if err != nil || next.Sum() != all[i].was.Back.Was {
			return CommandLine{}, false
		}
		now = next
	}
	return now, true
}

// is reports whether a command line is the one from before the step. Journals of older versions keep that one whole.
func (b WorkloadBefore) is(l CommandLine) bool {
	if b.Back != nil {
		return l.Sum() == b.Back.Was
	}
	return slices.Equal(l.Command, b.Command) && slices.Equal(l.Args, b.Args)
}

// producesCommand reports whether a command line is the one that the step made.
func (b WorkloadBefore) producesCommand(s v1.Step, l CommandLine) bool {
	if b.Back != nil {
		return l.Sum() == b.Back.Is
	}
	made, err := CommandLine{b.Command, b.Args}.edited(s.Edits)
	return err == nil && slices.Equal(l.Command, made.Command) && slices.Equal(l.Args, made.Args)
}
