package chart_test

import (
	"strings"
	"testing"
)

func TestUnknownAndMisplacedValuesAreRefused(t *testing.T) {
	for _, helm := range []string{"helm 3", "helm 4"} {
		for value, want := range map[string]string{
			"replicas=3":                                                  "replicas",
			"api.replica=3":                                               "replica",
			"api.replicas=many":                                           "replicas",
			"api.autoscaling.max=3":                                       "max",
			"environment=staging":                                         "environment",
			"database.url=postgres://u:p@h/d":                             "url",
			"worker.extraEnv[0].nam=A":                                    "nam",
			"networkPolicy.privateCIDRs[0]=local":                         "privateCIDRs",
			"operator.serviceAccount.token=1":                             "token",
			"migrate.mode=sometimes":                                      "mode",
			"webhooks.retention=30d":                                      "retention",
			"image.digest=latest":                                         "digest",
			"api.podDisruptionBudget.minAvail=1":                          "minAvail",
			"monitoring.podMonitor.everySeconds=1":                        "everySeconds",
			"test.apiKey.value=service_0":                                 "value",
			"imagePullSecrets={regcred}":                                  "imagePullSecrets",
			"ingress.hosts={a.example.com}":                               "hosts",
			"ingress.hosts[0].host=a,ingress.hosts[0].paths[0].path=docs": "path",
			"ingress.hosts[0].host=a,ingress.hosts[0].paths[0].path=/,ingress.hosts[0].paths[0].pathType=Regex": "pathType",
			"worker.extraContainers[0].name=proxy":      "image",
			"extraObjects[0]=7":                         "extraObjects",
			"migrate.extraContainers[0].name=a":         "extraContainers",
			"monitoring.prometheusRule.runbookURL=wiki": "runbookURL",
		} {
			_, err := template(t, helm, "--set", value)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s takes %s: %v", helm, value, err)
			}
		}
	}
}

func TestWhatDoesNotFitTogetherIsRefusedByName(t *testing.T) {
	for values, want := range map[string]string{
		"oidc.issuer=https://login.example.com":                                                             "oidc.clientID",
		"oidc.issuer=https://login.example.com,oidc.clientID=a":                                             "oidc.redirectURL",
		"monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true":                         "twice",
		"caBundle.secretName=a,caBundle.configMapName=b":                                                    "caBundle",
		"operator.serviceAccount.create=false":                                                              "operator.serviceAccount.name",
		"operator.shard.name=a":                                                                             "operator.shard.selector",
		"ingress.enabled=true":                                                                              "ingress.hosts",
		"httpRoute.enabled=true":                                                                            "httpRoute.parentRefs",
		"worker.autoscaling.enabled=true,worker.autoscaling.type=keda":                                      "prometheusAddress",
		"api.drainDelaySeconds=40,api.shutdownGraceSeconds=42":                                              "drainDelaySeconds",
		"api.autoscaling.enabled=true,api.autoscaling.targetCPUUtilizationPercentage=null":                  "metric",
		"api.autoscaling.enabled=true,api.autoscaling.minReplicas=5,api.autoscaling.maxReplicas=4":          "maxReplicas",
		"worker.autoscaling.enabled=true,worker.autoscaling.minReplicas=5,worker.autoscaling.maxReplicas=4": "maxReplicas",
	} {
		_, err := template(t, "helm 4", "--set", values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error that names %s, got %v", values, want, err)
		}
	}
}
