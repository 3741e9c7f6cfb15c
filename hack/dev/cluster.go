package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"examprep.dev/hack/dev/controlplane"
)

const (
	readyTime = 2 * time.Minute
	// operatorNamespace and operatorAccount name the operator's service account, here as in config/default.
	operatorNamespace, operatorAccount = "examprep-system", "examprep-operator"
)

// startCluster brings the control plane up, then the operator, and waits until the samples are Ready there.
func (e *environment) startCluster(ctx context.Context) error {
	binaries, err := obtainControlPlane(ctx, e.root, e.dir, e.console)
	if err != nil {
		return err
	}
	plane, err := e.startControlPlane(ctx, binaries)
	if err != nil {
		return err
	}
	if err := e.linkKubectl(binaries); err != nil {
		return err
	}
	admin, err := plane.Admin()
	if err != nil {
		return err
	}
	if err := e.dir.WriteFile("kubeconfig", admin, 0o600); err != nil {
		return err
	}
	e.kubeconfig = e.dir.Path("kubeconfig")
	e.console.sayf("kube-apiserver answers")
	if err := e.install(ctx); err != nil {
		return err
	}
	operator, err := plane.ServiceAccount(operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	if err := e.dir.WriteFile("operator.kubeconfig", operator, 0o600); err != nil {
		return err
	}
	// One operator and no other: it need not ask who leads, and after a kill it works on at once.
	if err := e.startProcess(ctx, "operator", []string{"KUBECONFIG=" + e.dir.Path("operator.kubeconfig"), "EXAMPREP_LEADER_ELECT=false"}); err != nil {
		return err
	}
	return e.applySamples(ctx)
}

func (e *environment) startControlPlane(ctx context.Context, binaries string) (*controlplane.Plane, error) {
	cfg := controlplane.Config{Binaries: binaries, Dir: e.dir.Path("kubernetes")}
	for name, address := range map[string]*string{"etcd": &cfg.Etcd, "etcd-peer": &cfg.EtcdPeer, "kube-apiserver": &cfg.APIServer} {
		var err error
		if *address, err = e.ports.Address(ctx, name); err != nil {
			return nil, err
		}
	}
	return controlplane.Start(ctx, e.supervisor, cfg)
}

// linkKubectl puts kubectl where the printed help says it is.
func (e *environment) linkKubectl(binaries string) error {
	e.kubectl = e.dir.Path("bin", "kubectl")
	_ = os.Remove(e.kubectl) // of the last run
	if err := os.Symlink(filepath.Join(binaries, "kubectl"), e.kubectl); err != nil {
		return fmt.Errorf("link kubectl: %w", err)
	}
	return nil
}

// kube runs kubectl as the administrator.
func (e *environment) kube(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime+startTime)
	defer cancel()
	return output(ctx, nil, stdin, e.kubectl, append([]string{"--kubeconfig", e.kubeconfig}, args...)...)
}

// install applies the CRDs and what the operator's account may do: exactly what its markers ask for.
func (e *environment) install(ctx context.Context) error {
	if _, err := e.kube(ctx, "", applyArgs(e.root, "config/crd")...); err != nil {
		return err
	}
	if _, err := e.kube(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return err
	}
	namespace := filepath.Join(e.root, "config", "default", "namespace.yaml")
	if _, err := e.kube(ctx, "", "apply", "--server-side", "--force-conflicts", "-f", namespace); err != nil {
		return err
	}
	_, err := e.kube(ctx, "", append(applyArgs(e.root, "config/rbac"), "-n", operatorNamespace)...)
	return err
}

// applyArgs are kubectl's arguments to apply a folder of config/: by its kustomization if it has one.
func applyArgs(root, folder string) []string {
	path := filepath.Join(root, folder)
	args := []string{"apply", "--server-side", "--force-conflicts"}
	if _, err := os.Stat(filepath.Join(path, "kustomization.yaml")); err == nil {
		return append(args, "-k", path)
	}
	return append(args, "-R", "-f", path)
}

// applySamples applies the samples with the receiver's address in them, waits until they are Ready, and gives the
// receiver the secrets that their deliveries are signed with.
func (e *environment) applySamples(ctx context.Context) error {
	objects, err := readSamples(filepath.Join(e.root, samples))
	if err != nil {
		return err
	}
	pointAt(objects, e.receiverURL)
	text, err := list(objects)
	if err != nil {
		return err
	}
	if _, err := e.kube(ctx, text, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	e.console.sayf("applied %s; waiting until the resources are Ready", samples)
	for _, o := range objects {
		if !o.ours() {
			continue
		}
		resource := strings.ToLower(o.text("kind")) + "s.examprep.dev/" + o.name()
		// kubectl itself waits for the condition of the generation that was applied.
		if _, err := e.kube(ctx, "", "wait", "--for=condition=Ready", "--timeout="+readyTime.String(), "-n", o.namespace(), resource); err != nil {
			described, _ := e.kube(ctx, "", "get", "-n", o.namespace(), resource, "-o", "jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{\"\\n\"}{end}")
			return fmt.Errorf("%s does not become Ready: %w\n%s", resource, err, described)
		}
	}
	return e.shareSecrets(ctx, objects)
}

// shareSecrets writes the signing secrets of the endpoints to the receiver's file, which is read at each delivery.
func (e *environment) shareSecrets(ctx context.Context, objects []object) error {
	var secrets strings.Builder
	for _, o := range objects {
		if o.text("kind") != "WebhookEndpoint" {
			continue
		}
		name, key := o.name()+"-signing-secret", "secret"
		if ref := o.part("spec").part("signingSecretRef"); ref != nil {
			name = ref.text("name")
			if ref.text("key") != "" {
				key = ref.text("key")
			}
		}
		encoded, err := e.kube(ctx, "", "get", "secret", "-n", o.namespace(), name, "-o", "go-template={{index .data \""+key+"\"}}")
		if err != nil {
			return err
		}
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			return fmt.Errorf("read the signing secret %s/%s: %w", o.namespace(), name, err)
		}
		secrets.Write(append(secret, '\n'))
	}
	return e.dir.WriteFile(filepath.Join("secrets", "webhooks"), []byte(secrets.String()), 0o600)
}

// help returns the addresses of everything, and how to call it.
func (e *environment) help() string {
	return fmt.Sprintf(`
Ready. The same in .dev/env, for scripts:

    console         %[8]s (sign in with one click, as an owner of the account %[9]s)
    API             %[1]s, described at %[10]s
    key             %[2]s
    cluster         .dev/bin/kubectl --kubeconfig %[3]s get examcontents -A
    webhooks        deliveries to %[4]s are in %[5]s; while .dev/receiver.fail exists, they fail
    PostgreSQL      %[6]s
    Redis           %[7]s
    logs, pids      .dev/log, .dev/pids

    curl -H "Authorization: Bearer %[2]s" %[1]s/exam-prep/list

Ctrl-C here or make dev-down elsewhere stops all of it.
`, e.apiURL, e.apiKey, e.kubeconfig, e.receiverURL, e.dir.Path("receiver.jsonl"), e.databaseURL, e.redisURL, e.consoleURL,
		account, e.origin+"/docs")
}
