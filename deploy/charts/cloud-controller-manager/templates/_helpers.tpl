{{/* Labels of all objects. */}}
{{- define "ccm.labels" -}}
app.kubernetes.io/name: cloud-controller-manager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What the DaemonSet of a plan selects by, so that this chart can take that one over. */}}
{{- define "ccm.selector" -}}
component: cloud-controller-manager
tier: control-plane
{{- end }}

{{/* The program of the image, and the image. */}}
{{- define "ccm.program" -}}
{{ .Values.provider }}-cloud-controller-manager
{{- end }}
{{- define "ccm.image" -}}
{{- $repository := .Values.image.repository | default (printf "%s/%s" .Values.image.registry (include "ccm.program" .)) -}}
{{- $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{/* The Secret with the cloud config; empty for none. */}}
{{- define "ccm.cloudConfigSecret" -}}
{{- if .Values.cloudConfig.secretName -}}
{{ .Values.cloudConfig.secretName }}
{{- else if .Values.cloudConfig.content -}}
{{ .Release.Name }}-cloud-config
{{- else if has .Values.provider (list "azure" "openstack" "vsphere") -}}
cloud-config
{{- end -}}
{{- end }}

{{/* What a provider is granted, rendered from the code that plans have it from. Leases and state of managers are in kube-system, and so is all of this. */}}
{{- define "ccm.rights" -}}
{{- if ne .Release.Namespace "kube-system" }}{{ fail (printf "this chart goes into the namespace kube-system, and not into %s: add --namespace kube-system" .Release.Namespace) }}{{ end -}}
{{ .Files.Get (printf "files/%s.yaml" .Values.provider) }}
{{- end }}
