package commandline

import "strings"

// booleans are the flags that take no value from the next argument: "--leader-elect false" is true and a stray word.
// They are those of kube-apiserver, kube-controller-manager, kube-scheduler and kubelet from v1.20 to v1.30, of
// cloud-controller-managers and of etcd.
var booleans = names(`
	add-dir-header aggregator-reject-forwarding-redirect allocate-node-cidrs allow-privileged allow-untagged-cloud alsologtostderr anonymous-auth
	audit-log-batch-throttle-enable audit-log-compress audit-log-truncate-enabled audit-webhook-batch-throttle-enable audit-webhook-truncate-enabled
	authentication-skip-lookup authentication-token-webhook authentication-tolerate-lookup-failure auto-tls cgroups-per-qos client-cert-auth
	configure-cloud-routes contention-profiling cpu-cfs-quota debug disable-attach-detach-reconcile-sync disable-http2-serving
	emulation-forward-compatible enable-aggregator-routing enable-bootstrap-token-auth enable-cadvisor-json-endpoints
	enable-controller-attach-detach enable-debugging-handlers enable-dynamic-provisioning enable-garbage-collector enable-hostpath-provisioner
	enable-leader-migration enable-load-reader enable-logs-handler enable-pprof enable-priority-and-fairness enable-server
	enable-swagger-ui enable-taint-manager enable-v2 encryption-provider-config-automatic-reload exit-on-lock-contention
	experimental-allocatable-ignore-eviction experimental-check-node-capabilities-before-mount experimental-initial-corrupt-check
	experimental-kernel-memcg-notification fail-swap-on feature-enable-dual-stack force-new-cluster help
	horizontal-pod-autoscaler-use-rest-clients keep-terminated-pod-volumes kernel-memcg-notification leader-elect
	local-storage-capacity-isolation log-json-split-stream log-text-split-stream logtostderr make-iptables-util-chains one-output peer-auto-tls
	peer-client-cert-auth permit-address-sharing permit-port-sharing pre-vote profiling protect-kernel-defaults really-crash-for-testing
	redirect-container-streaming register-node register-schedulable rotate-certificates rotate-server-certificates runonce
	runtime-config-emulation-forward-compatible seccomp-default serialize-image-pulls service-account-extend-token-expiration
	service-account-lookup shutdown-send-retry-after skip-headers skip-log-headers strict-reconfig-check use-service-account-credentials version
	volume-host-allow-local-loopback watch-cache webhook-disable-http2-serving
`)

func names(list string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		out[name] = true
	}
	return out
}
