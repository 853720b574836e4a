{{/* Labels of all objects. Pods are selected by the first alone, as those of deploy/operator are. */}}
{{- define "operator.labels" -}}
app.kubernetes.io/name: transplant-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "operator.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- define "operator.certificate" -}}
{{- $c := .Values.webhooks.certificate }}
{{- if and $c.caBundle $c.injectCAFrom }}
{{- fail "webhooks.certificate.caBundle and webhooks.certificate.injectCAFrom are two ways of the same: set one" }}
{{- end }}
{{- if ne (empty $c.secretName) (and (empty $c.caBundle) (empty $c.injectCAFrom)) }}
{{- fail "webhooks.certificate needs secretName, and caBundle or injectCAFrom: the API server would not trust the webhooks" }}
{{- end }}
{{- end }}
