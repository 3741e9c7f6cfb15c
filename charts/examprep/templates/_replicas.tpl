{{/* Number of pods that the manifest of an autoscaled Deployment must keep. An upgrade removes a field that the previous manifest
     had and the new one lacks, and the API server's default is 1. Empty if only the autoscaler sets the number, and if there
     is no cluster to query. (dict "root" $ "component" "api")

     Helm 3, and Helm 4 for releases of Helm 3, removes every field that the previous manifest had. Before there is an
     autoscaler, that manifest had the replicas of the values; afterwards the annotation records it. Server-side apply
     removes a field only if no other manager has set it. */}}
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
