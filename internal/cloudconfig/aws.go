package cloudconfig

import (
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

// derivation is the edits of an AWS config.
type derivation struct {
	*edits
	all []*override
}

// deriveAWS renames the service overrides, since the two providers find them by different names. An override that is
// not found is no error, but sends the calls to the public endpoint.
func deriveAWS(in []byte) (Derived, error) {
	e, err := newEdits(in)
	if err != nil {
		return Derived{}, err
	}
	d := &derivation{edits: e, all: e.overrides()}
	if d.validate(); len(d.problems) > 0 {
		return d.derived(), nil
	}
	for _, o := range d.all {
		d.rename(o)
	}
	d.dropInTreeKeys("aws")
	return d.derived(), nil
}

// validate finds every section that cannot be carried over.
func (d *derivation) validate() {
	seen := map[string]string{}
	for _, o := range d.all {
		switch s := o.service; {
		case s == "":
			d.addProblem("%s: Service is missing, without which no provider starts: add it or remove the section", o.title())
		case renamed[s] != nil, external[s], uncalled[s]:
		default:
			d.addProblem("%s: Service %q is not known: %s", o.title(), s, noHint)
		}
		signature := o.service + "\x00" + o.region
		if other := seen[signature]; other != "" && o.service != "" {
			d.addProblem(
				"%s: %s overrides the same service in the same region, with which no provider starts: remove one of them",
				o.title(),
				other,
			)
		}
		seen[signature] = o.title()
	}
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
		d.say(
			"%s for %s is left out: %s is there for %s",
			o.title(),
			o.service,
			d.override(targets[0], o.region).title(),
			targets[0],
		)
		return
	}
	e := o.entry("Service")
	d.splices = append(d.splices, splice{e.start, e.end, quotedAs(d.raw(e), missing[0])})
	d.say("%s: Service %s becomes %s, the name that the external provider looks for", o.title(), o.service, missing[0])
	if missing[0] == metadataService {
		d.shortenURL(o)
	}
	for _, name := range missing[1:] {
		d.copy(o, name)
	}
}

// shortenURL takes the path /latest off the metadata service's URL, which the external provider's SDK adds by itself.
func (d *derivation) shortenURL(o *override) {
	e := o.entry("URL")
	if e == nil {
		return
	}
	if short := strings.TrimSuffix(
		strings.TrimSuffix(trimmed(e.value), "/"),
		"/latest",
	); short != strings.TrimSuffix(
		trimmed(e.value),
		"/",
	) {
		d.splices = append(d.splices, splice{e.start, e.end, quotedAs(d.raw(e), short)})
		d.say("%s: URL loses its path /latest, which the external provider adds by itself", o.title())
	}
}

// override finds the override of a service in a region as the file has it. The metadata service is overridden in all
// regions at once.
func (d *derivation) override(service, region string) *override {
	i := slices.IndexFunc(d.all, func(o *override) bool {
		return o.service == service && (o.region == region || service == metadataService)
	})
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
	d.say(
		"[%s %q] is added for %s, with the values of %s: the in-tree provider has one override for both",
		overrideSection,
		sub,
		service,
		o.title(),
	)
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

// quotedAs writes a value in quotes where the one before it was, or where it needs them.
func quotedAs(before, value string) string {
	if strings.Contains(before, `"`) || strings.ContainsAny(value, "\\\"#;\n") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
	}
	return value
}
