package cloudconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	globalSection   = "Global"
	overrideSection = "ServiceOverride"
)

// override is a ServiceOverride section, of one block or of several with the same name.
type override struct {
	sub    string
	blocks []*block
	// service and region without the space around them, as both providers compare them.
	service, region string
}

func (o *override) title() string { return o.blocks[0].title() }

// entry is the variable of a name; the last one counts.
func (o *override) entry(key string) *entry {
	var out *entry
	for _, b := range o.blocks {
		for _, e := range b.entries {
			if strings.EqualFold(e.key, key) {
				out = e
			}
		}
	}
	return out
}

func (f *file) overrides() []*override {
	var out []*override
	for _, b := range f.blocks {
		if !b.is(overrideSection) {
			continue
		}
		i := slices.IndexFunc(out, func(o *override) bool { return o.sub == b.sub })
		if i < 0 {
			i, out = len(out), append(out, &override{sub: b.sub})
		}
		out[i].blocks = append(out[i].blocks, b)
	}
	for _, o := range out {
		o.service, o.region = o.value("Service"), o.value("Region")
	}
	return out
}

func (o *override) value(key string) string {
	if e := o.entry(key); e != nil {
		return strings.TrimSpace(e.value)
	}
	return ""
}

// splice replaces data[start:end].
type splice struct {
	start, end int
	text       string
}

// derivation collects what is done to a file.
type derivation struct {
	*file
	eol     string
	all     []*override
	splices []splice
	changes []string
}

// DeriveAWS turns the in-tree AWS provider's cloud config into the external provider's. The changes are sentences for the operator, without any
// value but the names of services. A config that is the external provider's already comes back as it is, with no changes. An override that the
// external provider would refuse or ignore is an error that names its section.
func DeriveAWS(in []byte) (out []byte, changes []string, err error) {
	f, err := parse(in)
	if err != nil {
		return nil, nil, err
	}
	d := &derivation{file: f, eol: "\n", all: f.overrides()}
	if bytes.Contains(in, []byte("\r\n")) {
		d.eol = "\r\n"
	}
	if err := d.validate(); err != nil {
		return nil, nil, err
	}
	for _, o := range d.all {
		d.rename(o)
	}
	d.drop()
	return d.bytes(), d.changes, nil
}

// validate finds every section that cannot be carried over.
func (d *derivation) validate() error {
	var errs []error
	seen := map[string]string{}
	for _, o := range d.all {
		switch s := o.service; {
		case s == "":
			errs = append(errs, fmt.Errorf("%s: Service is missing, without which no provider starts: add it or take the section out", o.title()))
		case renamed[s] != nil, external[s], uncalled[s]:
		case hints[s] != "":
			errs = append(errs, fmt.Errorf("%s: Service %q: %s", o.title(), s, hints[s]))
		default:
			errs = append(errs, fmt.Errorf("%s: Service %q is not known: %s", o.title(), s, noHint))
		}
		signature := o.service + "\x00" + o.region
		if other := seen[signature]; other != "" && o.service != "" {
			errs = append(errs, fmt.Errorf("%s: %s overrides the same service in the same region, with which no provider starts: take one of them out", o.title(), other))
		}
		seen[signature] = o.title()
	}
	return errors.Join(errs...)
}

// rename gives an in-tree override its external name, and a section more where one name becomes two.
func (d *derivation) rename(o *override) {
	targets := renamed[o.service]
	if targets == nil {
		return
	}
	var missing []string
	for _, name := range targets {
		if d.override(name, o.region) == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		d.remove(o)
		d.say("%s for %s is left out: %s is there for %s", o.title(), o.service, d.override(targets[0], o.region).title(), targets[0])
		return
	}
	e := o.entry("Service")
	text := missing[0]
	if strings.Contains(d.raw(e), `"`) {
		text = `"` + text + `"`
	}
	d.splices = append(d.splices, splice{e.start, e.end, text})
	d.say("%s: Service %s becomes %s, the name that the external provider looks for", o.title(), o.service, missing[0])
	for _, name := range missing[1:] {
		d.copy(o, name)
	}
}

// override finds the override of a service in a region as the file has it.
func (d *derivation) override(service, region string) *override {
	i := slices.IndexFunc(d.all, func(o *override) bool { return o.service == service && o.region == region })
	if i < 0 {
		return nil
	}
	return d.all[i]
}

// copy adds a section for another service behind the one that it takes the other values from.
func (d *derivation) copy(o *override, service string) {
	sub := d.freeName()
	lines := []string{"", fmt.Sprintf("[%s %q]", overrideSection, sub), "Service = " + service}
	for _, key := range []string{"Region", "URL", "SigningRegion", "SigningName"} {
		if e := o.entry(key); e != nil {
			lines = append(lines, key+" = "+d.raw(e))
		}
	}
	at := o.blocks[len(o.blocks)-1].end
	text := strings.Join(lines, d.eol) + d.eol
	if at == 0 || d.data[at-1] != '\n' { // the file's last line has no break
		text = d.eol + strings.TrimSuffix(text, d.eol)
	}
	d.splices = append(d.splices, splice{at, at, text})
	d.say("[%s %q] is added for %s, with the values of %s: the in-tree provider has one override for both", overrideSection, sub, service, o.title())
}

// freeName is a name for a new section: one more than the largest number in use.
func (d *derivation) freeName() string {
	largest := 0
	for _, o := range d.all {
		if n, err := strconv.Atoi(o.sub); err == nil {
			largest = max(largest, n)
		}
	}
	sub := strconv.Itoa(largest + 1)
	d.all = append(d.all, &override{sub: sub})
	return sub
}

// remove takes a section away, from its header to its last variable.
func (d *derivation) remove(o *override) {
	for _, b := range o.blocks {
		d.splices = append(d.splices, splice{start: b.start, end: b.end})
	}
}

// drop takes away the variables that the external provider has no use for.
func (d *derivation) drop() {
	for _, b := range d.blocks {
		for _, e := range b.entries {
			for _, x := range dropped {
				if b.is(x.section) && strings.EqualFold(e.key, x.key) {
					d.splices = append(d.splices, splice{start: e.from, end: e.to})
					if !slices.ContainsFunc(d.splices, func(s splice) bool { return s.start <= b.start && s.end > b.start }) {
						d.say("%s: %s is left out: %s", b.title(), x.key, x.why)
					}
				}
			}
		}
	}
}

func (d *derivation) say(format string, args ...any) {
	d.changes = append(d.changes, fmt.Sprintf(format, args...))
}

// bytes carries the splices out. What a splice removes, others inside it do not bring back.
func (d *derivation) bytes() []byte {
	slices.SortStableFunc(d.splices, func(a, b splice) int { return a.start - b.start })
	var out bytes.Buffer
	at := 0
	for _, s := range d.splices {
		if s.end < at {
			continue
		}
		out.Write(d.data[at:max(at, s.start)])
		out.WriteString(s.text)
		at = max(at, s.end)
	}
	out.Write(d.data[at:])
	return out.Bytes()
}
