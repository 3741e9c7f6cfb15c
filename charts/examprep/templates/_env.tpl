{{/* A variable from a Secret: (dict "name" … "from" {secretName, key}) */}}
{{- define "examprep.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .from.secretName }}
      key: {{ .from.key }}
{{- end }}

{{/* 85 % of a quantity of memory, in bytes; empty for one that is written in a way that is not known here. */}}
{{- define "examprep.goMemoryLimit" -}}
{{- $text := . | toString }}
{{- if not (kindIs "string" .) }}
{{- $text = int64 . | toString }}
{{- end }}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- if regexMatch "^[0-9]+([.][0-9]+)?([kMGT]|[KMGT]i)?$" $text }}
{{- $number := regexFind "^[0-9.]+" $text }}
{{- mulf $number (get $units (trimPrefix $number $text)) 0.85 | int64 }}
{{- end }}
{{- end }}

{{/* The variables of every process that keeps running. */}}
{{- define "examprep.processVariables" -}}
{{- $section := get .root.Values .component }}
{{- with .root.Values }}
{{ include "examprep.secretVariable" (dict "name" "DATABASE_URL" "from" .database) }}
- name: EXAMPREP_ENVIRONMENT
  value: {{ .environment }}
- name: EXAMPREP_POOL_MAX_CONNS
  value: {{ int $section.poolMaxConns | quote }}
- name: EXAMPREP_LOG_LEVEL
  value: {{ .logLevel }}
- name: EXAMPREP_SHUTDOWN_GRACE
  value: {{ int $section.shutdownGraceSeconds }}s
{{- if .pprof }}
- name: EXAMPREP_PPROF
  value: "true"
{{- end }}
{{- if .encryptionKeys.secretName }}
{{ include "examprep.secretVariable" (dict "name" "EXAMPREP_ENCRYPTION_KEYS" "from" .encryptionKeys) }}
{{- end }}
{{- with ($section.resources.limits).memory }}
# Go collects harder before the kernel kills. The kernel also counts the pages of the program file, about 55 MiB.
- name: GOMEMLIMIT
  {{- with include "examprep.goMemoryLimit" . }}
  value: {{ . | quote }}
  {{- else }}
  valueFrom:
    resourceFieldRef:
      containerName: {{ $.component }}
      resource: limits.memory
  {{- end }}
{{- end }}
{{- with .tracing }}
{{- if .endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .protocol }}
- name: OTEL_TRACES_SAMPLER
  value: {{ .sampler }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .samplerArg | quote }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: deployment.environment.name={{ $.root.Values.environment }},k8s.namespace.name={{ $.root.Release.Namespace }},k8s.pod.name=$(POD_NAME)
{{- if .headersSecret.secretName }}
{{ include "examprep.secretVariable" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "from" .headersSecret) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "examprep.apiVariables" -}}
{{- include "examprep.processVariables" . }}
{{- with .root.Values }}
{{ include "examprep.secretVariable" (dict "name" "REDIS_URL" "from" .redis) }}
{{ include "examprep.secretVariable" (dict "name" "EXAMPREP_NAMESPACE_SECRET" "from" .namespaceSecret) }}
{{- if gt (add (int .api.drainDelaySeconds) 5) (int .api.shutdownGraceSeconds) }}
{{- fail "api.drainDelaySeconds is part of api.shutdownGraceSeconds: leave at least five seconds to finish requests in" }}
{{- end }}
{{- if .api.processors }}
- name: GOMAXPROCS
  value: {{ int .api.processors | quote }}
{{- end }}
{{- range $variable, $value := dict "EXAMPREP_FAMILY_MAX_CONNS" .api.familyMaxConns "EXAMPREP_CACHE_MIB" .api.cacheMiB "EXAMPREP_KEY_DIRECTORY_MIB" .api.keyDirectoryMiB "EXAMPREP_COMPRESSED_MIB" .api.compressedMiB "EXAMPREP_BODY_MIB" .api.bodyMiB "EXAMPREP_MAX_CONNECTIONS" .api.maxConnections }}
{{- if $value }}
- name: {{ $variable }}
  value: {{ int $value | quote }}
{{- end }}
{{- end }}
- name: EXAMPREP_DRAIN_DELAY
  value: {{ int .api.drainDelaySeconds }}s
{{- with .api.trustedProxies }}
- name: EXAMPREP_TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
{{- if .api.maxConnectionsPerAddress }}
- name: EXAMPREP_MAX_CONNECTIONS_PER_ADDRESS
  value: {{ int .api.maxConnectionsPerAddress | quote }}
{{- end }}
{{- with .oidc }}
{{- if .issuer }}
- name: EXAMPREP_OIDC_ISSUER
  value: {{ .issuer | quote }}
- name: EXAMPREP_OIDC_CLIENT_ID
  value: {{ required "oidc.clientID is required with oidc.issuer" .clientID | quote }}
- name: EXAMPREP_OIDC_REDIRECT_URL
  value: {{ required "oidc.redirectURL is required with oidc.issuer" .redirectURL | quote }}
{{- if .clientSecret.secretName }}
{{ include "examprep.secretVariable" (dict "name" "EXAMPREP_OIDC_CLIENT_SECRET" "from" .clientSecret) }}
{{- end }}
- name: EXAMPREP_PERSONAL_ACCOUNTS
  value: {{ .personalAccounts | quote }}
{{- with .contact }}
- name: EXAMPREP_SIGN_IN_CONTACT
  value: {{ . | quote }}
{{- end }}
- name: EXAMPREP_SESSION_IDLE
  value: {{ $.root.Values.api.session.idle }}
- name: EXAMPREP_SESSION_LIFETIME
  value: {{ $.root.Values.api.session.lifetime }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ranges that endpoints of the cluster may name: the operator checks URLs, the worker addresses. */}}
{{- define "examprep.webhookVariables" -}}
{{- with .root.Values.webhooks.allowCIDRs }}
- name: EXAMPREP_WEBHOOK_ALLOW_CIDR
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}

{{- define "examprep.workerVariables" -}}
{{- include "examprep.processVariables" . }}
{{- include "examprep.webhookVariables" . }}
{{ include "examprep.secretVariable" (dict "name" "REDIS_URL" "from" .root.Values.redis) }}
- name: EXAMPREP_WEBHOOK_RETENTION
  value: {{ .root.Values.webhooks.retention }}
{{- end }}

{{- define "examprep.operatorVariables" -}}
{{- include "examprep.processVariables" . }}
{{- include "examprep.webhookVariables" . }}
{{- with .root.Values.operator }}
- name: EXAMPREP_CLUSTER_NAME
  value: {{ .clusterName | quote }}
{{- with .watchNamespaces }}
- name: EXAMPREP_WATCH_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
- name: EXAMPREP_LEADER_LEASE
  value: {{ include "examprep.leaseName" $.root }}
{{- with .shard }}
{{- if and .name (not .selector) }}
{{- fail "operator.shard.name needs operator.shard.selector: without it the shard would take what others take" }}
{{- end }}
{{- if .name }}
- name: EXAMPREP_SHARD_NAME
  value: {{ .name | quote }}
{{- end }}
{{- if .selector }}
- name: EXAMPREP_SHARD_SELECTOR
  value: {{ .selector | quote }}
{{- end }}
{{- end }}
{{- if .restrictWebhookAccounts }}
- name: EXAMPREP_RESTRICT_WEBHOOK_ACCOUNTS
  value: "true"
{{- end }}
- name: EXAMPREP_RESTRICT_ADOPTION
  value: {{ .restrictAdoption | quote }}
{{- if or .trustedVerifiers.configMapName .trustedVerifiers.secretName }}
- name: EXAMPREP_TRUSTED_VERIFIERS
  value: /etc/examprep/verifiers/verifiers
{{- end }}
{{- end }}
{{- end }}

{{/* migrate may go another way to the database than the processes that stay. */}}
{{- define "examprep.migrateVariables" -}}
{{- with .root.Values }}
{{ include "examprep.secretVariable" (dict "name" "DATABASE_URL" "from" (ternary .migrate.database .database (ne .migrate.database.secretName ""))) }}
- name: EXAMPREP_ENVIRONMENT
  value: {{ .environment }}
{{- end }}
{{- end }}
