package systemdunit

// KubeadmVariable is the variable in which kubeadm keeps the flags of a kubelet.
const KubeadmVariable = "KUBELET_KUBEADM_ARGS"
