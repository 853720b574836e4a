package controlplane

import "strings"

// booleans are the flags that stand alone: what follows them is not their value. pflag takes "--x y" for a boolean x as x=true and an argument y.
var booleans = map[string]bool{
	"allocate-node-cidrs": true, "allow-privileged": true, "allow-untagged-cloud": true, "anonymous-auth": true, "authentication-skip-lookup": true,
	"authentication-tolerate-lookup-failure": true, "configure-cloud-routes": true, "contention-profiling": true, "enable-aggregator-routing": true,
	"enable-bootstrap-token-auth": true, "enable-dynamic-provisioning": true, "enable-garbage-collector": true, "enable-hostpath-provisioner": true,
	"enable-leader-migration": true, "enable-priority-and-fairness": true, "enable-taint-manager": true, "leader-elect": true, "logtostderr": true,
	"alsologtostderr": true, "one-output": true, "profiling": true, "skip-headers": true, "skip-log-headers": true, "use-service-account-credentials": true,
	"service-account-lookup": true, "watch-cache": true, "http2-max-streams": false, "permit-port-sharing": true, "permit-address-sharing": true,
}

// FlagsOf reads the flags of a command line, by name without dashes and with dashes for underscores. The last one of a name wins, as in pflag; a
// boolean that stands alone is "true".
func FlagsOf(command []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(command); {
		name, value, n := flagAt(command, i)
		if name != "" {
			out[name] = value
		}
		i += n
	}
	return out
}

// flagAt reads the argument at i; n is how many arguments it takes.
func flagAt(args []string, i int) (name, value string, n int) {
	arg := args[i]
	if !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--" {
		return "", "", 1
	}
	name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	name = strings.ReplaceAll(name, "_", "-")
	switch {
	case given:
		return name, value, 1
	case !booleans[name] && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
		return name, args[i+1], 2
	}
	return name, "true", 1
}
