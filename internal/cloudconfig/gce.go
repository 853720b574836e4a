package cloudconfig

// deriveGCE changes nothing. The external provider reads every key of the in-tree one in the same way, and both ignore
// unknown keys.
func deriveGCE(in []byte) (Derived, error) {
	d, err := newEdits(in)
	if err != nil {
		return Derived{}, err
	}
	d.dropInTreeKeys("gce")
	return d.derived(), nil
}
