package catalogue

// KubeletSkew is how many minors a kubelet may be older than an API server of a minor: two, and three since API server 1.28
// (https://kubernetes.io/releases/version-skew-policy/; KEP-3935).
func KubeletSkew(server int) int {
	if server >= 28 {
		return 3
	}
	return 2
}
