{{/* How many pods an autoscaled Deployment goes on with, where it would be one if its manifest did not say: a field that
     the manifest of the upgrade before had and this one has not is taken away, and the API server's default is 1. Empty
     where the autoscaler alone says, and where there is no cluster to ask. (dict "root" $ "component" "api")

     Helm 3, and Helm 4 for releases of Helm 3, takes away what the manifest before had: until an autoscaler is there, it
     had the values' replicas; from then on the annotation tells. Server-side apply takes away what nobody else has set. */}}
{{- define "examprep.keptReplicas" -}}
{{- $name := include "examprep.componentName" . }}
{{- $namespace := .root.Release.Namespace }}
{{- $live := lookup "apps/v1" "Deployment" $namespace $name }}
{{- if $live }}
{{- $applied := false }}
{{- $ours := false }}
{{- $others := false }}
{{- range $live.metadata.managedFields }}
{{- $fields := dig "fieldsV1" "f:spec" dict . }}
{{- if and (eq .operation "Apply") (hasKey $fields "f:template") (not (hasPrefix "v3." $.root.Capabilities.HelmVersion.Version)) }}
{{- $applied = true }}
{{- $ours = hasKey $fields "f:replicas" }}
{{- else if hasKey $fields "f:replicas" }}
{{- $others = true }}
{{- end }}
{{- end }}
{{- $scaled := false }}
{{- range list $name (printf "keda-hpa-%s" $name) }}
{{- if lookup "autoscaling/v2" "HorizontalPodAutoscaler" $namespace . }}
{{- $scaled = true }}
{{- end }}
{{- end }}
{{- $had := or (not $scaled) (hasKey ($live.metadata.annotations | default dict) "examprep.dev/replicas") }}
{{- if ternary (and $ours (not $others)) $had $applied }}
{{- int $live.spec.replicas }}
{{- end }}
{{- end }}
{{- end }}
