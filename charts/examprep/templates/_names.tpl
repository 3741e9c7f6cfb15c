{{/* The chart's name, cut to what a label may hold. */}}
{{- define "examprep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What every object's name begins with; room is left for the longest suffix. */}}
{{- define "examprep.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Name of a cluster-scoped object. It contains the namespace, because two namespaces can have releases of one name. */}}
{{- define "examprep.clusterwideName" -}}
{{- printf "%s:%s" .Release.Namespace (include "examprep.fullname" .) }}
{{- end }}

{{/* Labels that never change: a Deployment's selector is immutable. Called with (dict "root" $ "component" "api"). */}}
{{- define "examprep.selectorLabels" -}}
app.kubernetes.io/name: {{ include "examprep.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* A pod's labels leave out the chart's version: a new chart that changes nothing of a pod rolls none. */}}
{{- define "examprep.podLabels" -}}
{{ include "examprep.selectorLabels" . }}
app.kubernetes.io/part-of: examprep
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- with (get .root.Values .component).podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "examprep.labels" -}}
{{ include "examprep.selectorLabels" . }}
app.kubernetes.io/part-of: examprep
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object: (dict "root" $ "component" "api" "name" … "labels" {} "annotations" {} "namespaced" true) */}}
{{- define "examprep.metadata" -}}
name: {{ .name }}
{{- if not .clusterwide }}
namespace: {{ .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "examprep.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "examprep.componentName" -}}
{{- printf "%s-%s" (include "examprep.fullname" .root) .component }}
{{- end }}

{{/* The lease that the operators of a release elect their leader by. For the release examprep it is the default of the program,
     as in config/. */}}
{{- define "examprep.leaseName" -}}
{{- printf "%s.examprep.dev" (include "examprep.componentName" (dict "root" . "component" "operator")) }}
{{- end }}

{{/* The account that a component runs as. */}}
{{- define "examprep.serviceAccountName" -}}
{{- $account := (get .root.Values .component).serviceAccount }}
{{- if $account.create }}
{{- $account.name | default (include "examprep.componentName" .) }}
{{- else if and (eq .component "operator") (not $account.name) }}
{{- fail "operator.serviceAccount.create=false: name the account in operator.serviceAccount.name, or the operator's rights are those of every pod that names none" }}
{{- else }}
{{- $account.name | default "default" }}
{{- end }}
{{- end }}

{{- define "examprep.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of a component's priority class; empty for the cluster's default. */}}
{{- define "examprep.priorityClassName" -}}
{{- $own := (get .root.Values .component).priorityClassName }}
{{- if $own }}
{{- $own }}
{{- else if and .root.Values.priorityClasses.create (hasKey .root.Values.priorityClasses .component) }}
{{- printf "%s-%s-%s" .root.Release.Namespace (include "examprep.fullname" .root) .component | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
