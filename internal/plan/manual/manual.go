// Package manual writes the commands by which an operator does a step by hand.
package manual

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// Commands are the commands with which an operator does a step by hand. Contents are removed from the saved plan, so
// that nothing is typed. A manifest is changed in a file next to the directory and moved in. Every file in there is a
// pod, a half-written one among them.
func Commands(s v1.Step, flags map[string]string) []string {
	switch s.Kind {
	case v1.StepEnsureObject:
		if s.Derive == layout.DeriveDeployedCloudConfig {
			return []string{
				fmt.Sprintf(
					"kubectl -n %s create secret generic %s --from-file=%s=cloud.conf   # cloud.conf: what %s mounts, in the form of the external provider",
					component.Namespace,
					layout.SeedCloudConfig,
					layout.SeedCloudConfigKey,
					s.Source,
				),
			}
		}
		return []string{printFromPlan(s, "object") + " | kubectl create -f -"}
	case v1.StepDeleteObject:
		return []string{"kubectl delete " + kubectlRef(s.Ref)}
	case v1.StepPatchObject, v1.StepEditWorkload:
		return []string{"kubectl edit " + kubectlRef(s.Ref)}
	case v1.StepReplacePod:
		return []string{
			fmt.Sprintf("kubectl -n %s delete pod -l %s=%s --field-selector spec.nodeName=NODE   # NODE: the Node of host %s",
				component.Namespace, layout.LabelComponent, component.CCM, s.Host),
		}
	case v1.StepWriteFile:
		return writeCommands(s)
	case v1.StepCopyFile:
		return []string{
			fmt.Sprintf(
				"scp %s %s:/tmp/ && ssh %s sudo install -D -m %s /tmp/%s %s",
				s.Source,
				s.Host,
				s.Host,
				s.Mode,
				path.Base(s.Source),
				s.Path,
			),
		}
	case v1.StepRemoveFile:
		return []string{RunOnHost(s.Host, "sudo rm "+s.Path)}
	case v1.StepAddManifest:
		return []string{printFromPlan(s, "content") + " | " + RunOnHost(s.Host, moveInManifest(s.Path))}
	case v1.StepRemoveManifest:
		return []string{RunOnHost(s.Host, "sudo mv "+s.Path+" "+path.Dir(path.Dir(s.Path))+"/")}
	case v1.StepEditManifest:
		return []string{RunOnHost(s.Host, "sudo sed"+manifestScript(s, flags)+" "+s.Path+" | "+moveInManifest(s.Path))}
	case v1.StepRestoreManifest:
		return []string{
			RunOnHost(
				s.Host,
				"sudo sed"+manifestScript(
					s,
					flags,
				)+" "+path.Dir(
					path.Dir(s.Path),
				)+"/"+path.Base(
					s.Path,
				)+" | "+moveInManifest(
					s.Path,
				),
			),
		}
	case v1.StepStartUnit, v1.StepEditUnit, v1.StepStopUnit:
		return unitCommands(s, flags)
	case v1.StepVerify:
		return []string{"kubectl -n " + component.Namespace + " get leases", "kubectl get nodes,services -A -o wide"}
	default:
		return nil
	}
}

// unitCommands are the commands for a unit: its file first, where that changes, and then what systemd is told.
func unitCommands(s v1.Step, flags map[string]string) []string {
	verb := map[v1.StepKind]string{v1.StepStartUnit: "start", v1.StepEditUnit: "restart", v1.StepStopUnit: "stop"}[s.Kind]
	tell := RunOnHost(s.Host, "sudo systemctl "+verb+" "+s.Unit)
	if script := FlagScript(s, flags); script != "" {
		return []string{RunOnHost(s.Host, "sudo sed -i"+script+" "+s.Path+" && sudo systemctl daemon-reload"), tell}
	}
	return []string{tell}
}

func printFromPlan(s v1.Step, field string) string {
	return fmt.Sprintf(`yq -r '.steps[] | select(.id == "%s") | .%s' plan.yaml`, s.ID, field)
}

// RunOnHost returns the command that runs another one on a host.
func RunOnHost(host, command string) string {
	return "ssh " + host + " '" + strings.ReplaceAll(command, "'", `'\''`) + "'"
}

// moveInManifest writes a manifest next to its directory and moves it in.
func moveInManifest(manifest string) string {
	parent := path.Dir(path.Dir(manifest)) + "/" + path.Base(manifest) + ".new"
	return "sudo tee " + parent + " >/dev/null && sudo mv " + parent + " " + manifest
}

func kubectlRef(ref string) string {
	parts := strings.Split(ref, "/")
	if len(parts) == 3 {
		return strings.ToLower(parts[0]) + " -n " + parts[1] + " " + parts[2]
	}
	return strings.ToLower(parts[0]) + " " + parts[len(parts)-1]
}

// CreateToken is the command that prints a token of the cloud-controller-manager's account.
func CreateToken(derivation string) string {
	return fmt.Sprintf(
		"kubectl -n %s create token %s --duration=%.0fh",
		component.Namespace,
		layout.CCMAccount,
		layout.TokenLifetime(derivation).Hours(),
	)
}

func writeCommands(s v1.Step) []string {
	switch s.Derive {
	case layout.DeriveCloudConfig:
		out := []string{RunOnHost(s.Host, fmt.Sprintf("sudo install -D -m %s %s %s", s.Mode, s.Source, s.Path))}
		for _, c := range s.Changes {
			out = append(out, "# in "+s.Path+": "+c.After)
		}
		return out
	case layout.DeriveKubeconfig:
		return []string{
			RunOnHost(s.Host, fmt.Sprintf("sudo install -D -m %s %s %s", s.Mode, s.Source, s.Path)),
			RunOnHost(
				s.Host,
				fmt.Sprintf(
					"sudo kubectl --kubeconfig %s config set users.%s.tokenFile %s",
					s.Path,
					layout.CCMAccount,
					layout.CCMToken,
				),
			),
			RunOnHost(
				s.Host,
				fmt.Sprintf("sudo kubectl --kubeconfig %s config set-context --current --user=%s", s.Path, layout.CCMAccount),
			),
		}
	case layout.DeriveCredentialConfig:
		return []string{
			printFromPlan(s, "content") + " # its provider goes to the end of the list in " + s.Path,
			RunOnHost(s.Host, "sudoedit "+s.Path),
		}
	case layout.DeriveToken, layout.DeriveRenewingToken:
		return []string{
			CreateToken(
				s.Derive,
			) + " | " + RunOnHost(
				s.Host,
				fmt.Sprintf("sudo install -D -m %s /dev/stdin %s", s.Mode, s.Path),
			),
		}
	}
	return []string{
		printFromPlan(
			s,
			"content",
		) + " | " + RunOnHost(
			s.Host,
			fmt.Sprintf("sudo install -D -m %s /dev/stdin %s", s.Mode, s.Path),
		),
	}
}

// manifestScript are the expressions of sed for a manifest as kubeadm writes it. They are for its flags, one on each
// line behind the program's name, and the mounts of this migration's own files.
func manifestScript(s v1.Step, flags map[string]string) string {
	var b strings.Builder
	added := ""
	for _, e := range s.Edits {
		_, there := flags[e.Name]
		switch {
		case e.Op == v1.EditSetImage:
			fmt.Fprintf(&b, ` -e "s|^\( *image: .*/%s\):.*|\1:%s|"`, e.Name, e.Value)
		case e.Op == v1.EditUnsetFlag && there:
			fmt.Fprintf(&b, ` -e "/- --%s=/d"`, e.Name)
		case e.Op == v1.EditSetFlag && there:
			fmt.Fprintf(&b, ` -e "s|- --%s=.*|- --%s=%s|"`, e.Name, e.Name, e.Value)
		case e.Op == v1.EditSetFlag:
			added += fmt.Sprintf(`\n\1- --%s=%s`, e.Name, e.Value)
		case e.Op == v1.EditAddHostPath:
			fmt.Fprintf(&b, ` -e "s|^\( *\)volumeMounts:$|&\n\1- mountPath: %[1]s\n\1  name: %[2]s\n\1  readOnly: true|"`+
				` -e "s|^\( *\)volumes:$|&\n\1- hostPath:\n\1    path: %[1]s\n\1    type: %[3]s\n\1  name: %[2]s|"`, e.Value, e.Name, e.PathType)
		case e.Op == v1.EditRemoveHostPath && strings.HasPrefix(e.Value, layout.Dir+"/"):
			fmt.Fprintf(&b, ` -e "\|- mountPath: %[1]s$|,+2d" -e "/- hostPath:$/{N;\|path: %[1]s$|{N;N;d}}"`, e.Value)
		}
	}
	if added != "" {
		fmt.Fprintf(&b, ` -e "s|^\( *\)- %s$|&%s|"`, s.Component, added)
	}
	return b.String()
}

// FlagScript are the expressions of sed for flags that stand as words on a line, in an environment file or a unit. New
// ones go behind one that is there.
func FlagScript(s v1.Step, flags map[string]string) string {
	added := ""
	for _, e := range s.Edits {
		if _, there := flags[e.Name]; e.Op == v1.EditSetFlag && !there {
			added += fmt.Sprintf(" --%s=%s", e.Name, e.Value)
		}
	}
	var b strings.Builder
	for _, e := range s.Edits {
		value, there := flags[e.Name]
		switch {
		case e.Op == v1.EditSetFlag && there && value == e.Value && added == "":
		case e.Op == v1.EditUnsetFlag && there:
			fmt.Fprintf(&b, ` -e "s| *--%s=[^ \"]*||"`, e.Name)
		case e.Op == v1.EditSetFlag && there:
			fmt.Fprintf(&b, ` -e "s|--%s=[^ \"]*|--%s=%s%s|"`, e.Name, e.Name, e.Value, added)
			added = ""
		}
	}
	if added != "" {
		fmt.Fprintf(&b, ` -e "s|^\(KUBELET_KUBEADM_ARGS=.*\)\"|\1%s\"|"`, added)
	}
	return b.String()
}

// KubeletCommands are the commands for a kubelet, with the drain where the step has one.
func KubeletCommands(s v1.Step, node string, flags map[string]string) []string {
	restart := "sudo systemctl restart kubelet"
	if slices.ContainsFunc(systemdunit.UnitDirs, func(dir string) bool { return strings.HasPrefix(s.Path, dir+"/") }) {
		restart = "sudo systemctl daemon-reload && " + restart
	}
	out := []string{RunOnHost(s.Host, "sudo sed -i"+FlagScript(s, flags)+" "+s.Path+" && "+restart)}
	if s.Drain {
		out = append(
			[]string{"kubectl drain " + node + " --ignore-daemonsets --delete-emptydir-data"},
			append(out, "kubectl uncordon "+node)...)
	}
	return out
}

// Indent returns the lines of a text, indented, for instructions to an operator.
func Indent(text string) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		out = append(out, "    "+line)
	}
	return out
}

// TakeDown says how a control-plane node is removed for good. Its machine has to be down before its Node goes: else a
// manager on it may hold the loops.
func TakeDown(node string) []string {
	return []string{
		"take node " + node + " down, in this order:",
		"    mv /etc/kubernetes/manifests/kube-controller-manager.yaml /etc/kubernetes/   # on that host",
		"    kubectl -n kube-system get lease kube-controller-manager   # until it has another holder, if that was its manager",
		"    mv /etc/kubernetes/manifests/cloud-controller-manager.yaml /etc/kubernetes/   # on that host, if there is one; until its process has ended",
		"    kubectl drain " + node + " --ignore-daemonsets --delete-emptydir-data",
		"    kubeadm reset -f        # on that host; removes its etcd member, too (else etcdctl member remove)",
		"    shutdown -h now         # on that host, or delete the machine",
		"    kubectl delete node " + node,
	}
}
