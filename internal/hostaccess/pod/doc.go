// Package pod decides how hosts are reached through the Kubernetes API alone: through pods that are pinned to their nodes and hold no more of a host than
// what is done there.
//
//	look pod     one for each node, for the life of a command: everything is mounted and only read
//	change pod   one for each grant: the directories of that grant are mounted and may be changed; privileged only where units are restarted
//
// A pod is reached through one exec session. A session that breaks, because an API server or a kubelet was restarted, is opened anew, and what was under way
// goes on (see package agent); a pod that is lost is made anew. Neither needs this process to clean up: the agents end when nobody asks, and the pods
// belong to a Job that is complete when it is born and that Kubernetes takes away with them when it is no longer renewed.
package pod
