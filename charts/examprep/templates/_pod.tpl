{{/* A Deployment of one component: (dict "root" $ "component" "api" "ports" […]) */}}
{{- define "examprep.deployment" -}}
{{- $root := .root }}
{{- $section := get $root.Values .component }}
{{- $annotations := dict }}
{{- $replicas := $section.replicas }}
{{- if ($section.autoscaling).enabled }}
{{- $replicas = include "examprep.keptReplicas" . }}
{{- if $replicas }}
{{- $_ := set $annotations "examprep.dev/replicas" "kept" }}
{{- end }}
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "examprep.metadata" (dict "root" $root "component" .component "name" (include "examprep.componentName" .) "annotations" $annotations) | nindent 2 }}
spec:
  {{- with $replicas }}
  replicas: {{ int . }}
  {{- end }}
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      {{- include "examprep.selectorLabels" . | nindent 6 }}
  strategy:
    {{- toYaml $section.strategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "examprep.podLabels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .component }}
        {{- with $section.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "examprep.podSpec" . | trim | nindent 6 }}
{{- end }}

{{- define "examprep.podSpec" -}}
{{- $root := .root }}
{{- $section := get $root.Values .component }}
serviceAccountName: {{ include "examprep.serviceAccountName" . }}
automountServiceAccountToken: {{ eq .component "operator" }}
# Service variables of the namespace would be read as settings.
enableServiceLinks: false
# The process ends by itself within its grace; the rest is for the kubelet.
terminationGracePeriodSeconds: {{ add (int $section.shutdownGraceSeconds) 5 }}
{{ include "examprep.placement" . | trim }}
{{- with $section.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
-
  {{- toYaml . | nindent 2 }}
  labelSelector:
    matchLabels:
      {{- include "examprep.selectorLabels" $ | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}
{{- $migrates := eq $root.Values.migrate.mode "initContainer" }}
{{- if or $migrates $section.extraInitContainers }}
initContainers:
{{- with $section.extraInitContainers }}
{{ toYaml . }}
{{- end }}
{{- if $migrates }}
- {{- include "examprep.migrateContainer" . | nindent 2 }}
{{- end }}
{{- end }}
containers:
- name: {{ .component }}
  args:
  - {{ .component }}
  {{- with $section.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  env:
    {{- include (printf "examprep.%sVariables" .component) . | trim | nindent 4 }}
    {{- with $section.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $section.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
  {{- if eq .component "api" }}
  - {name: http, containerPort: 8080}
  {{- end }}
  - {name: health, containerPort: 8081}
  - {name: metrics, containerPort: 9090}
  {{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
  {{ $probe }}:
    httpGet: {path: {{ $path }}, port: health}
    {{- toYaml (get $section $probe) | nindent 4 }}
  {{- end }}
  {{- include "examprep.containerCommons" . | nindent 2 }}
{{- with $section.extraContainers }}
{{ toYaml . }}
{{- end }}
{{- include "examprep.volumes" . }}
{{- end }}

{{/* The container of the migration, in a Job or as an init container. */}}
{{- define "examprep.migrateContainer" -}}
{{- $section := .root.Values.migrate -}}
name: migrate
args:
- migrate
{{- with $section.extraArgs }}
{{ toYaml . }}
{{- end }}
env:
  {{- include "examprep.migrateVariables" . | trim | nindent 2 }}
  {{- with $section.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $section.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "examprep.containerCommons" (dict "root" .root "component" "migrate") }}
{{- end }}

{{/* Fields of all containers of examprep: image, resources, security context, mounts. */}}
{{- define "examprep.containerCommons" -}}
{{- $section := get .root.Values .component -}}
image: {{ include "examprep.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml $section.resources | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
{{- $bundle := .root.Values.caBundle }}
{{- $verifiers := eq (include "examprep.hasVerifiers" .) "true" }}
{{- if or $section.extraVolumeMounts $bundle.configMapName $bundle.secretName $verifiers }}
volumeMounts:
{{- if or $bundle.configMapName $bundle.secretName }}
# Go reads this folder besides the image's own roots.
- {name: ca-bundle, mountPath: /etc/pki/tls/certs, readOnly: true}
{{- end }}
{{- if $verifiers }}
- {name: verifiers, mountPath: /etc/examprep/verifiers, readOnly: true}
{{- end }}
{{- with $section.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether the component reads the public keys of trusted verifiers. */}}
{{- define "examprep.hasVerifiers" -}}
{{- $verifiers := .root.Values.operator.trustedVerifiers }}
{{- if and $verifiers.configMapName $verifiers.secretName }}
{{- fail "operator.trustedVerifiers: name a ConfigMap or a Secret, not both" }}
{{- end }}
{{- and (eq .component "operator") (or $verifiers.configMapName $verifiers.secretName | empty | not) }}
{{- end }}

{{- define "examprep.volumes" -}}
{{- $extra := (get .root.Values .component).extraVolumes }}
{{- if and (ne .component "migrate") (eq .root.Values.migrate.mode "initContainer") }}
{{- $extra = concat $extra .root.Values.migrate.extraVolumes }}
{{- end }}
{{- $bundle := .root.Values.caBundle }}
{{- if and $bundle.configMapName $bundle.secretName }}
{{- fail "caBundle: name a ConfigMap or a Secret, not both" }}
{{- end }}
{{- $verifiers := eq (include "examprep.hasVerifiers" .) "true" }}
{{- if or $extra $bundle.configMapName $bundle.secretName $verifiers }}
volumes:
{{- with $bundle.configMapName }}
- name: ca-bundle
  configMap:
    name: {{ . }}
    items: [{key: {{ $bundle.key }}, path: extra.crt}]
{{- end }}
{{- with $bundle.secretName }}
- name: ca-bundle
  secret:
    secretName: {{ . }}
    items: [{key: {{ $bundle.key }}, path: extra.crt}]
{{- end }}
{{- if $verifiers }}
{{- with .root.Values.operator.trustedVerifiers }}
- name: verifiers
  {{- if .configMapName }}
  configMap:
    name: {{ .configMapName }}
  {{- else }}
  secret:
    secretName: {{ .secretName }}
  {{- end }}
    items: [{key: {{ .key }}, path: verifiers}]
{{- end }}
{{- end }}
{{- with $extra }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Placement of a pod, its security context and its pull Secrets. */}}
{{- define "examprep.placement" -}}
{{- $section := get .root.Values .component }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "examprep.priorityClassName" . }}
priorityClassName: {{ . }}
{{- end }}
{{- with $section.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $section.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $section.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $section.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A quantity of CPU in thousandths of a core; 0 for none. */}}
{{- define "examprep.millicores" -}}
{{- $text := toString (. | default "0") -}}
{{- if hasSuffix "m" $text -}}
{{ trimSuffix "m" $text | int }}
{{- else -}}
{{ mulf (float64 $text) 1000 | int }}
{{- end -}}
{{- end -}}
