{{/* The name of everything; a release called pantala is not pantala-pantala. */}}
{{- define "pantala.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pantala.fullname" -}}
{{- $name := include "pantala.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pantala.selector" -}}
app.kubernetes.io/name: {{ include "pantala.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pantala.labels" -}}
{{ include "pantala.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pantala.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pantala.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pantala.secret" -}}
{{- default (include "pantala.fullname" .) .Values.auth.existingSecret -}}
{{- end -}}

{{/* A value as the configuration file has it: no 1e+09, no true. */}}
{{- define "pantala.setting" -}}
{{- if kindIs "bool" . -}}
{{- ternary "yes" "no" . -}}
{{- else if kindIs "float64" . -}}
{{- if eq (floor .) . -}}{{- printf "%.0f" . -}}{{- else -}}{{- . -}}{{- end -}}
{{- else if eq (toString .) "" -}}
""
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{- define "pantala.config" -}}
dir /data
port 6379
protected-mode no
{{- if .Values.memcached.enabled }}
memcached_port 11211
{{- end }}
{{- if .Values.tls.existingSecret }}
tls yes
tls-cert-file /etc/pantala/tls/tls.crt
tls-key-file /etc/pantala/tls/tls.key
tls-auth-clients {{ .Values.tls.authClients }}
{{- if ne .Values.tls.authClients "no" }}
tls-ca-cert-file /etc/pantala/tls/ca.crt
{{- end }}
tls-auto-reload-interval 60
{{- end }}
{{- range $name, $value := .Values.config }}
{{ $name }} {{ include "pantala.setting" $value }}
{{- end }}
{{- end -}}

{{- define "pantala.probe" -}}
port: pantala
scheme: {{ ternary "HTTPS" "HTTP" (ne .Values.tls.existingSecret "") }}
{{- end -}}
