{{/* An egress rule to some peers (none given: anywhere) on some TCP ports: (dict "to" […] "ports" […]) */}}
{{- define "examprep.egressRule" -}}
- ports:
  {{- range .ports }}
  - {protocol: TCP, port: {{ int . }}}
  {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Names are looked up on port 53, by default of any server: node-local caches have addresses of their own. */}}
{{- define "examprep.dnsRule" -}}
- ports:
  - {protocol: UDP, port: 53}
  - {protocol: TCP, port: 53}
  {{- with .Values.networkPolicy.dns.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Rules for the stores of a process: (dict "root" $ "redis" true or false) */}}
{{- define "examprep.storesRules" -}}
{{- $redis := .redis }}
{{- with .root }}
{{ include "examprep.dnsRule" . }}
{{ include "examprep.egressRule" .Values.networkPolicy.postgres }}
{{- if $redis }}
{{ include "examprep.egressRule" .Values.networkPolicy.redis }}
{{- end }}
{{- if .Values.tracing.endpoint }}
{{ include "examprep.egressRule" .Values.networkPolicy.tracing }}
{{- end }}
{{- end }}
{{- end }}

{{/* The internet without private ranges, metadata addresses and the given addresses of the API server. Ranges that an
     administrator allows webhooks to reach are added. (dict "root" $ "ports" […] "allowed" […]) */}}
{{- define "examprep.internetRule" -}}
{{- $refused := concat .root.Values.networkPolicy.privateCIDRs .root.Values.networkPolicy.kubernetesAPI.cidrs }}
- ports:
  {{- range .ports }}
  - {protocol: TCP, port: {{ int . }}}
  {{- end }}
  to:
  - ipBlock:
      cidr: 0.0.0.0/0
      except:
      {{- range $refused }}
      {{- if not (contains ":" .) }}
      - {{ . }}
      {{- end }}
      {{- end }}
  - ipBlock:
      cidr: ::/0
      except:
      {{- range concat .root.Values.networkPolicy.privateCIDRsV6 .root.Values.networkPolicy.kubernetesAPI.cidrs }}
      {{- if contains ":" . }}
      - {{ . | quote }}
      {{- end }}
      {{- end }}
{{- with .allowed }}
# Ranges that webhooks.allowCIDRs lets webhooks reach, on any port.
- to:
  {{- range . }}
  - ipBlock: {cidr: {{ . | quote }}}
  {{- end }}
{{- end }}
{{- end }}

{{/* Scrapers; the kubelet's probes come from the node and need no rule. */}}
{{- define "examprep.metricsRule" -}}
- ports:
  - {protocol: TCP, port: metrics}
  {{- with .Values.networkPolicy.metrics.from }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "examprep.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "examprep.metadata" (merge (dict "name" (include "examprep.componentName" .)) .) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "examprep.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end }}
