package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"examprep.dev/hack/dev/process"
)

const (
	// startTime limits the start of each server. It is long, because a start must not fail on a busy machine.
	startTime = 6 * time.Minute
	// askTime limits one readiness request.
	askTime = 30 * time.Second
)

// Config describes a control plane.
type Config struct {
	Binaries string // directory of etcd and kube-apiserver
	Dir      string // for data and certificates
	// Etcd, EtcdPeer and APIServer are loopback host:port.
	Etcd, EtcdPeer, APIServer string
	// Throwaway gives up surviving a crash for speed: for tests.
	Throwaway bool
	// Final makes the supervisor fail at the first death of one of the two instead of restarting it.
	Final bool
	// EtcdQuota is how many bytes etcd may hold; 0: its default, 2 GiB.
	EtcdQuota int64
	// Now is the clock of certificates; nil: time.Now.
	Now func() time.Time
}

// Plane is a control plane that answers.
type Plane struct {
	cfg       Config
	authority *authority
}

// Start runs etcd and kube-apiserver under s and returns when the API server is ready to serve everything.
func Start(ctx context.Context, s *process.Supervisor, cfg Config) (*Plane, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a, err := openAuthority(filepath.Join(cfg.Dir, "certificates"), cfg.Now())
	if err != nil {
		return nil, err
	}
	p := &Plane{cfg: cfg, authority: a}
	if err := a.server("server", cfg.Now()); err != nil {
		return nil, err
	}
	if err := serviceAccountKey(a.dir); err != nil {
		return nil, err
	}
	client, err := p.httpClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	if err := p.start(ctx, s, client, "etcd", p.etcdArgs(), "https://"+cfg.Etcd+"/readyz"); err != nil {
		return nil, err
	}
	if err := p.start(ctx, s, client, "kube-apiserver", p.apiServerArgs(), "https://"+cfg.APIServer+"/readyz"); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context, s *process.Supervisor, client *http.Client, name string, args []string, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return s.Start(ctx, process.Spec{
		Name: name, Path: filepath.Join(p.cfg.Binaries, name), Args: args, Dir: p.cfg.Dir, Store: name == "etcd", Final: p.cfg.Final,
		Ready: func(ctx context.Context) error { return get(ctx, client, ready) },
	})
}

func (p *Plane) certificate(file string) string { return filepath.Join(p.authority.dir, file) }

func (p *Plane) etcdArgs() []string {
	client, peer := "https://"+p.cfg.Etcd, "https://"+p.cfg.EtcdPeer
	args := []string{
		"--name=examprep", "--data-dir=" + filepath.Join(p.cfg.Dir, "etcd"), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=examprep=" + peer,
		"--client-cert-auth", "--trusted-ca-file=" + p.certificate("ca.crt"),
		"--cert-file=" + p.certificate("server.crt"), "--key-file=" + p.certificate("server.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + p.certificate("ca.crt"),
		"--peer-cert-file=" + p.certificate("server.crt"), "--peer-key-file=" + p.certificate("server.key"),
	}
	if p.cfg.Throwaway {
		args = append(args, "--unsafe-no-fsync")
	}
	if p.cfg.EtcdQuota > 0 {
		args = append(args, "--quota-backend-bytes="+strconv.FormatInt(p.cfg.EtcdQuota, 10))
	}
	return args
}

func (p *Plane) apiServerArgs() []string {
	host, port, _ := net.SplitHostPort(p.cfg.APIServer) // made by us
	return []string{
		"--bind-address=" + host, "--secure-port=" + port,
		"--advertise-address=" + host, "--endpoint-reconciler-type=none", // no client looks up the API server's endpoints
		"--tls-cert-file=" + p.certificate("server.crt"), "--tls-private-key-file=" + p.certificate("server.key"),
		"--client-ca-file=" + p.certificate("ca.crt"), "--authorization-mode=RBAC",
		"--etcd-servers=https://" + p.cfg.Etcd, "--etcd-cafile=" + p.certificate("ca.crt"),
		"--etcd-certfile=" + p.certificate("server.crt"), "--etcd-keyfile=" + p.certificate("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.certificate("sa.pub"), "--service-account-signing-key-file=" + p.certificate("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		// The default service account of a namespace is made by a controller that does not run here.
		"--disable-admission-plugins=ServiceAccount",
		"--shutdown-delay-duration=0s",
	}
}

// httpClient speaks for the administrator.
func (p *Plane) httpClient() (*http.Client, error) {
	certPEM, keyPEM, err := p.authority.client("examprep-dev", []string{"system:masters"}, p.cfg.Now())
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("use a certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.authority.cert)
	return &http.Client{Timeout: askTime, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}}, nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 2048))
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s: %s", url, response.Status, body)
	}
	return nil
}

// Admin returns a kubeconfig of an administrator, who may do everything.
func (p *Plane) Admin() ([]byte, error) { return p.user("admin", []string{"system:masters"}) }

// ServiceAccount returns a kubeconfig of a service account, which has only the rights that role bindings give it.
func (p *Plane) ServiceAccount(namespace, name string) ([]byte, error) {
	return p.user("system:serviceaccount:"+namespace+":"+name, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace})
}

func (p *Plane) user(name string, groups []string) ([]byte, error) {
	cert, key, err := p.authority.client(name, groups, p.cfg.Now())
	if err != nil {
		return nil, err
	}
	const here = "examprep-dev"
	text, err := json.MarshalIndent(map[string]any{ // JSON is YAML
		"apiVersion": "v1", "kind": "Config", "current-context": here,
		"clusters": []any{map[string]any{"name": here, "cluster": map[string]any{
			"server": "https://" + p.cfg.APIServer, "certificate-authority-data": p.authority.certificatePEM(),
		}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{
			"client-certificate-data": cert, "client-key-data": key,
		}}},
		"contexts": []any{map[string]any{"name": here, "context": map[string]any{
			"cluster": here, "user": name, "namespace": "default",
		}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return append(text, '\n'), nil
}
