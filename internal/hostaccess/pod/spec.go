package pod

import (
	"path"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Labels and annotations of the pods and their Job.
const (
	// LabelAccess says what a pod is for: AccessLook or AccessChange.
	LabelAccess = "transplant.dev/host-access"
	// LabelRun is the command's own ID, the same on its Job and its pods.
	LabelRun = "transplant.dev/run"
	// AnnotationPurpose says what a change pod was made for.
	AnnotationPurpose = "transplant.dev/purpose"
	// AnnotationHolder says on a Job which process made it.
	AnnotationHolder = "transplant.dev/holder"

	AccessLook   = "look"
	AccessChange = "change"

	labelManaged = "app.kubernetes.io/managed-by"
	managed      = "transplant"
)

const (
	container = "agent"
	program   = "/transplant"
	hostRoot  = "/host"
	socketDir = "/run/transplant"
	socket    = socketDir + "/agent.sock"
	// deadline is a backstop: the kubelet ends a pod that is older, and a command that still needs it makes another one.
	deadline = 12 * time.Hour
)

// relay is what an exec session runs.
var relay = []string{program, "host-agent", "relay", "--socket=" + socket}

// spec is everything that a pod depends on.
type spec struct {
	Name, Namespace, Node, Image, Run string
	// Job owns the pod.
	Job types.UID
	// Idle is how long the agent lives without requests.
	Idle time.Duration
	// Change tells a change pod.
	Change  bool
	Purpose string
	// Parts are the directories that are mounted for changes, absolute on the host.
	Parts []string
	// Service mounts nothing and allows to talk to the host's service manager.
	Service bool
	// Frozen mounts without what is mounted and unmounted on the host later, for hosts whose own mounts are private.
	Frozen bool
}

// build is the pod.
func build(s spec) *corev1.Pod {
	access := AccessLook
	// Where there is no AppArmor this says nothing; where there is, the default profile would refuse the mounts.
	profile := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + container
	annotations := map[string]string{profile: corev1.DeprecatedAppArmorBetaProfileNameUnconfined}
	if s.Change {
		access = AccessChange
		annotations[AnnotationPurpose] = s.Purpose
	}
	volumes, mounts := mountsOf(s)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: s.Namespace, Annotations: annotations,
			Labels: map[string]string{labelManaged: managed, LabelAccess: access, LabelRun: s.Run},
			// Not a controller: a Job that controlled pods would count them.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: jobName(s.Run), UID: s.Job}},
		},
		Spec: corev1.PodSpec{
			NodeName: s.Node, HostNetwork: true, HostPID: true, DNSPolicy: corev1.DNSDefault,
			Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			PriorityClassName: "system-node-critical", RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](30), ActiveDeadlineSeconds: ptr.To(int64(deadline / time.Second)),
			Containers: []corev1.Container{
				{
					Name:                     container,
					Image:                    s.Image,
					ImagePullPolicy:          corev1.PullIfNotPresent,
					Command:                  []string{program},
					Args:                     arguments(s),
					VolumeMounts:             mounts,
					SecurityContext:          security(s),
					TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				},
			},
			Volumes: volumes,
		},
	}
}

func arguments(s spec) []string {
	args := []string{
		"host-agent",
		"serve",
		"--name=" + s.Node,
		"--root=" + hostRoot,
		"--socket=" + socket,
		"--idle=" + s.Idle.String(),
	}
	for _, p := range s.Parts {
		args = append(args, "--part="+p)
	}
	if s.Service {
		args = append(args, "--service")
	}
	return args
}

// mountsOf are the socket's directory, in memory so that a full disk does not matter, and the host's directories.
func mountsOf(s spec) ([]corev1.Volume, []corev1.VolumeMount) {
	volumes := []corev1.Volume{
		{
			Name:         "run",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		},
	}
	mounts := []corev1.VolumeMount{{Name: "run", MountPath: socketDir}}
	add := func(dir string, readOnly bool) {
		name := "host-" + strconv.Itoa(len(volumes)-1)
		// Without a type the kubelet looks at nothing, also where its own view of the host differs.
		volumes = append(
			volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}},
		)
		m := corev1.VolumeMount{Name: name, MountPath: path.Join(hostRoot, dir), ReadOnly: readOnly}
		// what is unmounted on the host is unmounted here: a mount that stayed would keep a volume from being detached
		if !s.Frozen {
			m.MountPropagation = ptr.To(corev1.MountPropagationHostToContainer)
		}
		mounts = append(mounts, m)
	}
	if !s.Change {
		add("/", true)
	}
	for _, p := range s.Parts {
		add(p, false)
	}
	return volumes, mounts
}

// security is what each pod may do. All of them are root, since what is looked at belongs to root.
func security(s spec) *corev1.SecurityContext {
	c := &corev1.SecurityContext{
		RunAsUser: ptr.To[int64](0), RunAsGroup: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(true),
		SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}, // containers may not see a host's files otherwise
	}
	if s.Service { // the host's systemctl runs in the root of process 1
		c.Privileged = ptr.To(true)
		return c
	}
	capabilities := []corev1.Capability{
		"DAC_READ_SEARCH", // files of other users, such as etcd's
		"SYS_CHROOT",      // the host's own programs, such as its image credential providers, need its libraries
	}
	if s.Change {
		capabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"} // a file that is replaced keeps its owner
	}
	c.AllowPrivilegeEscalation = ptr.To(false)
	c.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities}
	c.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	return c
}
