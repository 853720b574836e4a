// Package cloudconfig decides what the external provider's cloud config is, given the in-tree one. Values are copied, never shown.
package cloudconfig

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// overrideServices maps how the in-tree provider names a service in [ServiceOverride] (the SDK v1's endpoint ids) to how the external one does (the
// SDK v2's service ids, k8s.io/cloud-provider-aws pkg/providers/v1/config). A name that the external provider does not know is ignored
// by it without a word, and its calls go to the public endpoint.
var overrideServices = map[string][]string{
	"ec2":                  {"EC2"},
	"elasticloadbalancing": {"Elastic Load Balancing", "Elastic Load Balancing v2"},
	"kms":                  {"KMS"},
	"sts":                  {"STS"},
	"autoscaling":          {"Auto Scaling"},
}

// externalServices are the names that the external provider knows already.
var externalServices = map[string]bool{
	"EC2": true, "Elastic Load Balancing": true, "Elastic Load Balancing v2": true, "KMS": true, "ec2imds": true, "STS": true, "Auto Scaling": true,
}

// dropped are the keys that the external provider has no use for, by section.
var dropped = map[string]string{
	"Global.DisableStrictZoneCheck": "the external provider does not check zones",
	"ServiceOverride.SigningMethod": "the external provider signs with version 4 only",
}

// section is a section with its lines, the header first.
type section struct {
	name, sub string // sub without quotes
	lines     []string
}

// DeriveAWS turns the in-tree AWS cloud config into the external provider's. The changes are sentences without values.
func DeriveAWS(in []byte) (out []byte, changes []string, err error) {
	sections, err := parse(in)
	if err != nil {
		return nil, nil, err
	}
	present := map[string]bool{}
	for _, s := range sections {
		if s.name == "ServiceOverride" {
			present[s.get("Service")] = true
		}
	}
	var b strings.Builder
	var errs []error
	for _, s := range sections {
		kept, gone := s.without()
		changes = append(changes, gone...)
		if s.name != "ServiceOverride" {
			b.WriteString(strings.Join(kept.lines, ""))
			continue
		}
		derived, said, err := kept.override(present)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changes = append(changes, said...)
		for _, d := range derived {
			b.WriteString(strings.Join(d.lines, ""))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	return []byte(b.String()), changes, nil
}

// override gives the sections that a service override becomes.
func (s section) override(present map[string]bool) ([]section, []string, error) {
	service := s.get("Service")
	names, known := overrideServices[service]
	switch {
	case externalServices[service]:
		return []section{s}, nil, nil
	case !known:
		return nil, nil, fmt.Errorf("[ServiceOverride %q]: service %q has no counterpart that is known in the external provider, which would ignore it and call the public endpoint", s.sub, service)
	}
	var out []section
	var said []string
	for i, name := range names {
		if present[name] {
			continue // the file serves both providers, and has it already
		}
		d := s.with("Service", name)
		if i > 0 {
			d = d.rename(fmt.Sprintf("%s-%d", s.sub, i+1))
		}
		out = append(out, d)
		said = append(said, fmt.Sprintf("[ServiceOverride %q] Service %s is called %q", s.sub, service, name))
	}
	if len(out) == 0 {
		said = append(said, fmt.Sprintf("[ServiceOverride %q] for %s dropped: the external provider's own override is there", s.sub, service))
	}
	return out, said, nil
}

// Describe lists the keys of a cloud config as Section.Key, sorted, and the services of its overrides, in order; no other value.
func Describe(in []byte) (keys, overrides []string, err error) {
	sections, err := parse(in)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range sections {
		title := s.name
		if s.sub != "" {
			title += fmt.Sprintf(" %q", s.sub)
		}
		for _, line := range s.lines {
			if key, _, ok := keyValue(line); ok {
				keys = append(keys, title+"."+key)
			}
		}
		if service := s.get("Service"); s.name == "ServiceOverride" && service != "" {
			overrides = append(overrides, service)
		}
	}
	sort.Strings(keys)
	return keys, overrides, nil
}

func parse(in []byte) ([]section, error) {
	out := []section{{}}
	for i, line := range strings.SplitAfter(string(in), "\n") {
		trimmed := strings.TrimSpace(line)
		if !strings.HasPrefix(trimmed, "[") {
			if _, _, ok := keyValue(line); !ok && trimmed != "" && trimmed[0] != '#' && trimmed[0] != ';' {
				return nil, fmt.Errorf("line %d is neither a section, a key nor a comment", i+1)
			}
			out[len(out)-1].lines = append(out[len(out)-1].lines, line)
			continue
		}
		end := strings.LastIndex(trimmed, "]")
		if end < 0 {
			return nil, fmt.Errorf("line %d: the section's bracket is not closed", i+1)
		}
		name, sub, _ := strings.Cut(strings.TrimSpace(trimmed[1:end]), " ")
		out = append(out, section{name: name, sub: strings.Trim(strings.TrimSpace(sub), `"`), lines: []string{line}})
	}
	if len(out) == 1 && len(strings.TrimSpace(string(in))) > 0 {
		return nil, errors.New("it has no section")
	}
	return out, nil
}

func keyValue(line string) (key, value string, ok bool) {
	trimmed := strings.TrimSpace(line)
	if trimmed == "" || strings.ContainsRune("#;[", rune(trimmed[0])) {
		return "", "", false
	}
	key, value, _ = strings.Cut(trimmed, "=")
	key = strings.TrimSpace(key)
	return key, strings.Trim(strings.TrimSpace(value), `"`), key != "" && !strings.ContainsAny(key, " \t")
}

func (s section) get(key string) string {
	for _, line := range s.lines {
		if k, v, ok := keyValue(line); ok && strings.EqualFold(k, key) {
			return v
		}
	}
	return ""
}

// without leaves the dropped keys out.
func (s section) without() (section, []string) {
	out := section{name: s.name, sub: s.sub}
	var said []string
	for _, line := range s.lines {
		key, _, ok := keyValue(line)
		if why := dropped[s.name+"."+key]; ok && why != "" {
			said = append(said, fmt.Sprintf("[%s] %s dropped: %s", s.name, key, why))
			continue
		}
		out.lines = append(out.lines, line)
	}
	return out, said
}

func (s section) with(key, value string) section {
	out := section{name: s.name, sub: s.sub}
	for _, line := range s.lines {
		if k, _, ok := keyValue(line); ok && strings.EqualFold(k, key) {
			before, _, _ := strings.Cut(line, "=")
			line = before + "= " + value + "\n"
		}
		out.lines = append(out.lines, line)
	}
	return out
}

func (s section) rename(sub string) section {
	out := section{name: s.name, sub: sub, lines: append([]string(nil), s.lines...)}
	out.lines[0] = fmt.Sprintf("[%s %q]\n", s.name, sub)
	return out
}
