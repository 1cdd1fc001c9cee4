{{/* The labels that select the pods. They never change: a StatefulSet cannot. */}}
{{- define "stout.selector" -}}
app.kubernetes.io/name: stout
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stout.labels" -}}
{{ include "stout.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "stout.replicas" -}}
{{- if not (has (int .Values.replicas) (list 3 5)) -}}
{{- fail (printf "replicas is %v: a cell has 3 replicas, of which one may fail, or 5, of which two may" .Values.replicas) -}}
{{- end -}}
{{ int .Values.replicas }}
{{- end -}}

{{/* The DNS name that all replicas share: that of the Service for clients. */}}
{{- define "stout.host" -}}
{{ .Release.Name }}-client.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* The value memory in KiB. */}}
{{- define "stout.memory" -}}
{{- $n := regexFind "^[1-9][0-9]*" .Values.memory | int64 -}}
{{- $kib := ternary (mul $n 1024 1024) (mul $n 1024) (hasSuffix "Gi" .Values.memory) -}}
{{- if or (not (regexMatch "^[1-9][0-9]*(Mi|Gi)$" .Values.memory)) (lt $kib 524288) -}}
{{- fail (printf "memory is %q: give at least 512Mi, as a whole number of Mi or Gi" .Values.memory) -}}
{{- end -}}
{{ $kib }}
{{- end -}}

{{/* The settings that all replicas share. values.yaml states the rule of the quotas. */}}
{{- define "stout.settings" -}}
{{- $use := sub (div (mul (include "stout.memory" . | int64) 3) 4) 131072 -}}
{{- $calls := div $use 270 -}}
{{- $settings := dict
  "cell" .Values.cell
  "data-dir" "/var/lib/stoutd/data"
  "api-listen" "0.0.0.0:7101"
  "api-cert" "/etc/stout/tls/cert.pem"
  "api-key" "/etc/stout/tls/key.pem"
  "api-client-ca" "/etc/stout/tls/ca.pem"
  "api-client-auth" "optional"
  "raft-listen" "0.0.0.0:7201"
  "raft-cert" "/etc/stout/tls/cert.pem"
  "raft-key" "/etc/stout/tls/key.pem"
  "raft-ca" "/etc/stout/tls/ca.pem"
  "audit-log" "-"
  "max-bytes" (printf "%dKiB" (div (mul $use 2) 5))
  "max-content" (printf "%dKiB" (div $use 5))
  "event-history-bytes" (printf "%dKiB" (div $use 10))
  "max-sessions" $calls
  "max-waiters" $calls
  "max-watchers" $calls
  "max-connections" (div $use 90)
-}}
{{- if .Values.founding.secretName -}}
{{- $_ := set $settings "found-token-file" "/etc/stout/founding/root.token" -}}
{{- end -}}
{{- if .Values.backups.enabled -}}
{{- $_ := set $settings "backup-dir" "/var/backups/stout" -}}
{{- $_ := set $settings "backup-every" .Values.backups.every -}}
{{- $_ := set $settings "backup-keep" (int .Values.backups.keep) -}}
{{- end -}}
{{- $replicas := list -}}
{{- range $i := until (include "stout.replicas" . | int) -}}
{{- $id := printf "%s-%d" $.Release.Name $i -}}
{{- $host := printf "%s.%s.%s.svc" $id $.Release.Name $.Release.Namespace -}}
{{- $replicas = append $replicas (dict "id" $id "raft" (printf "%s:7201" $host) "api" (printf "https://%s:7101" $host)) -}}
{{- end -}}
{{- $_ := set $settings "replicas" $replicas -}}
{{- range $name, $value := .Values.settings -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
{{ toYaml $settings }}
{{- end -}}

{{/* Fails an upgrade while a replica is not ready: Kubernetes would stop a second one. */}}
{{- define "stout.ready" -}}
{{- if and .Release.IsUpgrade (not .Values.upgradeUnready) -}}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace .Release.Name -}}
{{- $ready := dig "status" "readyReplicas" 0 . | int -}}
{{- if lt $ready (int .spec.replicas) -}}
{{- fail (printf "%d of %d replicas are ready, and an upgrade would stop another one: repair the cell first, or set upgradeUnready if the upgrade repairs it" $ready (int .spec.replicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The time to stop in seconds, 12 s above shutdown-timeout. */}}
{{- define "stout.grace" -}}
{{- $start := toDate "2006-01-02" "2024-01-01" -}}
{{- $end := mustDateModify (get (default dict .Values.settings) "shutdown-timeout" | default "8s" | toString) $start -}}
{{ sub (unixEpoch $end) (unixEpoch $start) | add 12 }}
{{- end -}}
