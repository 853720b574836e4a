package check

import (
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// tokenNotice is how long before its end a manager's token is warned of: one run of a monthly renewal is left.
const tokenNotice = 30 * 24 * time.Hour

var tokenExpires = Check{
	Code: "CRED-005", Reason: "TokenExpires", Category: categoryCloud, Level: LevelWarning, Impact: ImpactNoLoops,
	DependsOn: onHosts,
	Title:     "no manager's token on a host ends within 30 days",
	Explain: []string{
		"A cloud-controller-manager that runs as a static pod has the token of a ServiceAccount in a file. Once the token has ended, " +
			"the API server refuses the manager. No cloud loop runs then, from any host whose token has ended.",
		"An official image's token lasts a year and is renewed by transplant renew. Our manager on AWS renews its own after 30 of 90 days. " +
			"Less than 30 days are left only when that has failed for a month, or when its host was switched off: its log says why.",
		"A token that is renewed is read again within a minute: no manager is restarted.",
	},
	judge: judgeTokenExpiry,
}

func judgeTokenExpiry(f facts) v1.Finding {
	const expected, source = "30 days or more", "the manager's token file on each host; its signature is not verified"
	if finding, ok := f.missing("hosts/*/manager-token"); ok {
		return with(finding, expected, source, "")
	}
	var bad complaints
	var first time.Time
	found := 0
	for _, h := range f.Hosts {
		t := h.ManagerToken
		if t == nil {
			continue
		}
		found++
		left := t.Expires.Sub(f.now())
		if first.IsZero() || t.Expires.Before(first) {
			first = t.Expires
		}
		switch {
		case t.Error != "":
			bad.add(h.Name, "%s on host %s: %s", t.Path, h.Name, t.Error)
		case left <= 0:
			bad.add(h.Name, "%s on host %s ended %s", t.Path, h.Name, t.Expires.Format(time.RFC3339))
		case left < tokenNotice:
			bad.add(h.Name, "%s on host %s ends %s, in %s", t.Path, h.Name, t.Expires.Format(time.RFC3339), plural(int(left.Hours()/24), "day"))
		}
	}
	switch {
	case found == 0:
		return skip("no manager has a token in a file of a host")
	case bad.empty():
		return pass("%s, the first ends %s", plural(found, "token"), first.Format(time.RFC3339))
	}
	return with(bad.some(v1.Warn, "%s within 30 days or cannot be used: run transplant renew",
		howMany(len(bad.lines), "1 manager's token ends", "managers' tokens end")),
		expected, source, "transplant renew --host-access=pod:node-role.kubernetes.io/control-plane")
}
