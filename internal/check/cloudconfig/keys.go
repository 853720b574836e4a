package cloudconfig

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

// configured is a cloud config on a host.
type configured struct {
	v1.CloudConfig
	host v1.Host
}

func (c configured) String() string { return c.host.Name + ":" + c.Path }

// has reports whether a variable is set; section and name are compared without regard to case.
func (c configured) has(key string) bool {
	return slices.ContainsFunc(c.Keys, func(k string) bool { return strings.EqualFold(k, key) })
}

// setting is the value of a key that can hold no secret; empty for none. Keys are compared without regard to case.
func (c configured) setting(key string) string {
	for name, value := range c.Settings {
		if strings.EqualFold(name, key) {
			return value
		}
	}
	return ""
}

// configs returns the cloud configs of all hosts, the managers' first on each, and the finding where there is none.
func configs(f facts.Facts) ([]configured, v1.Finding, bool) {
	if _, missing := f.Missing("hosts/*/cloud-config"); missing {
		return nil, findings.Dependent("CFG-001"), false
	}
	var out []configured
	for _, h := range f.Hosts {
		if h.CloudConfig != nil {
			out = append(out, configured{*h.CloudConfig, h})
		}
		for _, c := range h.CloudConfigs {
			out = append(out, configured{c, h})
		}
	}
	if len(out) == 0 {
		return nil, findings.Skip("no host has a cloud config"), false
	}
	return out, v1.Finding{}, true
}

var configKeys = rule.Check{
	Code:      "CFG-002",
	Reason:    "CloudConfigKeys",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the line with the key: a misspelt key, or one of another version of the provider",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		configs, finding, ok := configs(f)
		if !ok {
			return finding
		}
		configs = slices.DeleteFunc(configs, func(c configured) bool { return c.Error != "" })
		if len(configs) == 0 {
			return findings.Dependent("CFG-001")
		}
		var bad findings.Problems
		keys, fix := 0, ""
		for _, c := range configs {
			keys += len(c.Keys)
			for _, p := range c.Problems {
				if bad.Empty() {
					fix = "grep -n " + shell.Quote(firstKey(p)) + " " + shell.Quote(c.Path) + "   # on host " + shell.Quote(c.host.Name)
				}
				bad.Add(c.String(), "%s on %s: %s", c.Path, c.host.Name, p)
			}
		}
		if bad.Empty() {
			return findings.Pass(
				"the providers understand the %s of %s",
				findings.Plural(keys, "key"),
				findings.Plural(len(configs), "cloud config"),
			)
		}
		return findings.With(
			bad.Some(v1.Warn, "%s", bad[0].Text),
			"keys that both providers know",
			bad[0].Object,
			fix,
		)
	},
}

// firstKey is the variable that a problem begins with, without its section.
func firstKey(problem string) string {
	key, _, _ := strings.Cut(problem, " ")
	return strings.Trim(key[strings.LastIndex(key, ".")+1:], `:,"`)
}

// pathOf and hostOf are the parts of the text of a config.
func pathOf(object string) string { _, p, _ := strings.Cut(object, ":"); return p }

func hostOf(object string) string { h, _, _ := strings.Cut(object, ":"); return h }

var settingLost = rule.Check{
	Code:      "CFG-003",
	Reason:    "SettingLost",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the keys that the finding names, whose values have to be the same on every host",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		configs, finding, ok := configs(f)
		if !ok {
			return finding
		}
		var bad, ignored findings.Problems
		for _, c := range configs {
			if c.Error != "" {
				continue // CFG-001
			}
			lostSettings(f, c, &bad, &ignored)
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Some(v1.Warn, "%s", bad[0].Text),
				"no default that changes, and the availability set named where vmType is standard",
				bad[0].Object,
				"grep -n -i -E 'vmType|loadBalancerSku|primaryAvailabilitySetName' "+shell.Quote(pathOf(bad[0].Object))+"   # on host "+shell.Quote(hostOf(bad[0].Object)),
			)
		case !ignored.Empty():
			finding := ignored.Some(
				v1.Pass,
				"%s the same to the external provider, but for keys of no consequence there",
				findings.HowMany(len(configs), "the cloud config says", "cloud configs say"),
			)
			finding.Objects = nil
			return finding
		}
		return findings.Pass(
			"%s the same to the external provider",
			findings.HowMany(len(configs), "the cloud config says", "cloud configs say"),
		)
	},
}

// lostSettings says which settings of a config the external provider does not have: defaults that change, and keys that
// it passes over. Keys that cannot be passed over keep the external config from being derived, which CFG-001 says.
func lostSettings(f facts.Facts, c configured, changed, ignored *findings.Problems) {
	provider := findings.OrElse(c.Provider, f.CloudName())
	for _, name := range c.Keys {
		section, key := splitKey(name)
		row, known := catalogue.ConfigKeyOf(provider, section, key)
		if known && row.InTree && !row.External && row.Renamed == "" && !row.OnlyVolumes() {
			ignored.Add(c.String(), "%s is read in tree only: %s", name, row.Why)
		}
	}
	for _, d := range catalogue.ChangedDefaults(provider) {
		name := catalogue.ConfigKey{Section: d.Section, Key: d.Key}.Name()
		written := slices.ContainsFunc(
			c.DerivedChanges,
			func(change string) bool { return strings.HasPrefix(change, name+":") },
		)
		if !c.has(name) && !written {
			changed.Add(c.String(), "%s is not set: %s in tree, %s outside: %s", name, d.InTree, d.External, d.Why)
		}
	}
	for _, needed := range catalogue.NeededKeys(provider) {
		if isSetTo(c, needed.With, needed.Value) && c.Settings[needed.Key] == "" {
			changed.Add(c.String(), "%s is not set, and %s is %s: %s", needed.Key, needed.With, needed.Value, needed.Why)
		}
	}
}

// isSetTo reports whether the external manager finds a value of a key. The file says so, or the derivation writes down
// the in-tree default.
func isSetTo(c configured, key, value string) bool {
	return strings.EqualFold(c.Settings[key], value) || slices.ContainsFunc(
		c.DerivedChanges,
		func(change string) bool { return strings.HasPrefix(change, key+": "+value) },
	)
}

// splitKey takes Section.Key or Section "sub".Key apart; a key of JSON has no section.
func splitKey(name string) (section, key string) {
	dot := strings.LastIndex(name, ".")
	if dot < 0 {
		return "", name
	}
	section, _, _ = strings.Cut(name[:dot], " \"")
	return section, name[dot+1:]
}

var secretsReadable = rule.Check{
	Code:      "CRED-002",
	Reason:    "SecretsReadable",
	Category:  findings.CategoryCloud,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNone,
	LookFor:   "a mode that others may read; it has to be 600",
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		configs, finding, ok := configs(f)
		if !ok {
			return finding
		}
		var bad findings.Problems
		var unclear []string
		secrets := 0
		for _, c := range configs {
			held := secretKeys(f, c)
			if len(held) == 0 {
				continue
			}
			secrets++
			mode := modeOf(c.host, c.Path)
			switch {
			case mode == "":
				unclear = append(unclear, c.String())
			case mode[len(mode)-1] != '0':
				bad.Add(c.String(), "%s has the mode %s and holds %s", c, mode, strings.Join(held, ", "))
			}
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Some(
					v1.Warn,
					"%s readable to everybody on the host",
					findings.HowMany(len(bad), "1 cloud config with secrets is", "cloud configs with secrets are"),
				),
				"mode 0600",
				bad[0].Object,
				"chmod 600 "+shell.Quote(pathOf(bad[0].Object))+"   # on host "+shell.Quote(hostOf(bad[0].Object)),
			)
		case len(unclear) > 0:
			return findings.With(
				findings.Unknown("the mode of %s is not known", findings.Few(unclear)),
				"mode 0600",
				unclear[0],
				"stat -c %a "+shell.Quote(pathOf(unclear[0])),
			)
		case secrets == 0:
			return findings.Pass("%s no secret", findings.HowMany(len(configs), "the cloud config holds", "cloud configs hold"))
		}
		return findings.Pass(
			"%s readable to everybody",
			findings.HowMany(secrets, "the cloud config with secrets is not", "cloud configs with secrets are not"),
		)
	},
}

// secretKeys are the keys of a config that hold a secret.
func secretKeys(f facts.Facts, c configured) []string {
	provider := findings.OrElse(c.Provider, f.CloudName())
	var out []string
	for _, name := range c.Keys {
		section, key := splitKey(name)
		if row, known := catalogue.ConfigKeyOf(provider, section, key); known && row.Secret {
			out = append(out, name)
		}
	}
	return out
}

// modeOf is the mode of a file on a host, e.g. 0640; empty when it is not known.
func modeOf(h v1.Host, file string) string {
	for _, f := range h.Files {
		if f.Path == file && f.Present {
			return f.Mode
		}
	}
	return ""
}
