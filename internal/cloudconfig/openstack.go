package cloudconfig

import "strings"

// deriveOpenStack removes what only in-tree volumes and the in-tree way to credentials read. The external provider
// speaks to Octavia alone.
func deriveOpenStack(in []byte) (Derived, error) {
	d, err := newEdits(in)
	if err != nil {
		return Derived{}, err
	}
	name, _ := d.value(globalSection, "secret-name")
	namespace, _ := d.value(globalSection, "secret-namespace")
	if name != "" && namespace != "" {
		d.addProblem(
			"[Global]: secret-name and secret-namespace let the in-tree provider read its credentials from a Secret, and the external one needs them in its " +
				"config; write them into the config, or keep the whole config in a Secret that the cloud-controller-manager mounts, and remove both keys",
		)
	}
	if octavia, ok := d.value(loadBalancerSection, "use-octavia"); ok && !isTruthy(octavia) {
		d.addProblem(
			"[LoadBalancer]: use-octavia is false, so the load balancers are Neutron LBaaS's, which the external provider does not support; " +
				"move them to Octavia first, and set use-octavia = true",
		)
	}
	if len(d.problems) == 0 {
		d.dropInTreeKeys("openstack")
	}
	return d.derived(), nil
}

const loadBalancerSection = "LoadBalancer"

// neutron tells of the in-tree provider's default that the file does not show.
func (d *Description) neutron(entries []setting) {
	balancers, octavia := false, false
	for _, e := range entries {
		if strings.EqualFold(e.section, loadBalancerSection) {
			balancers = true
			octavia = octavia || strings.EqualFold(e.key, "use-octavia")
		}
	}
	if balancers && !octavia {
		d.Problems = append(
			d.Problems,
			"LoadBalancer.use-octavia is not there: the in-tree provider then makes load balancers of Neutron LBaaS, with which the external "+
				"one cannot do anything",
		)
	}
}
