//go:build e2e

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const receiverHost = "receiver." + storesNamespace + ".svc"

type stores struct {
	password string
	// signingSecret signs what the receiver gets; authority signed its certificate, in PEM.
	signingSecret, authority string
	receiver                 *crowdtest.Receiver
}

func (c *cluster) bringUpStores(t *testing.T) {
	t.Helper()
	s := &c.stores
	s.password, s.signingSecret = rand.Text(), "whsec_"+rand.Text()
	authority, certificate, key := makeCertificate(t, receiverHost)
	s.authority = authority
	c.apply(t, "stores.yaml", map[string]string{
		"NAMESPACE": storesNamespace, "PASSWORD": s.password, "SIGNING_SECRET": s.signingSecret,
		"CERTIFICATE": quoted(t, certificate), "KEY": quoted(t, key), "REDISCLI_AUTH": "$(REDISCLI_AUTH)",
		"POSTGRES_IMAGE": c.images.postgres, "REDIS_IMAGE": c.images.redis, "RECEIVER_IMAGE": c.images.receiver,
	})
	began := time.Now()
	for _, name := range []string{"postgres", "redis", "receiver"} {
		c.kubectl(t, "", "rollout", "status", "deployment/"+name, "-n", storesNamespace, "--timeout=3m")
	}
	t.Logf("PostgreSQL, Redis and the receiver ready after %s", seconds(time.Since(began)))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authority))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: receiverHost, MinVersion: tls.VersionTLS12},
	}}
	log := crowdtest.HTTPLog(client, "https://"+c.nodePort(t, storesNamespace, "receiver")+"/log")
	s.receiver = crowdtest.NewReceiver(log, c.contract)
}

func (s *stores) databaseURL(database string) string {
	return "postgres://examprep:" + s.password + "@postgres." + storesNamespace + ".svc:5432/" + database + "?sslmode=disable"
}

func (s *stores) redisURL(number int) string {
	return fmt.Sprintf("redis://default:%s@redis.%s.svc:6379/%d", s.password, storesNamespace, number)
}

// psql runs a statement and returns its result without decoration.
func (c *cluster) psql(t *testing.T, database, statement string) string {
	t.Helper()
	return strings.TrimSpace(c.kubectl(t, statement, "exec", "-i", "-n", storesNamespace, "deployment/postgres", "--",
		"psql", "-d", database, "-v", "ON_ERROR_STOP=1", "-qAt", "-f", "-"))
}

func (c *cluster) redisCLI(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(c.kubectl(t, "", append([]string{"exec", "-n", storesNamespace, "deployment/redis", "--", "redis-cli"}, args...)...))
}

// nodePort is where the first node port of a Service is reached.
func (c *cluster) nodePort(t *testing.T, namespace, name string) string {
	t.Helper()
	service, err := c.kube.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	check.NoError(t, err)
	if len(service.Spec.Ports) == 0 || service.Spec.Ports[0].NodePort == 0 {
		t.Fatalf("service %s has no node port", name)
	}
	return net.JoinHostPort(c.node, strconv.Itoa(int(service.Spec.Ports[0].NodePort)))
}

// makeCertificate makes an authority and a certificate that it signs for a host, all in PEM.
func makeCertificate(t *testing.T, host string) (authority, certificate, key string) {
	t.Helper()
	made := func(template, parent *x509.Certificate, public *ecdsa.PrivateKey, signer *ecdsa.PrivateKey) string {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public.Public(), signer)
		check.NoError(t, err)
		return encodePEM("CERTIFICATE", der)
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		check.NoError(t, err)
		return key
	}
	const validity = 24 * time.Hour
	now := time.Now()
	signer, own := newKey(), newKey()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "examprep e2e"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(validity), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(validity), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.MarshalPKCS8PrivateKey(own)
	check.NoError(t, err)
	return made(ca, ca, signer, signer), made(leaf, ca, own, signer), encodePEM("PRIVATE KEY", der)
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// quoted is text as YAML has it in one line: JSON is YAML.
func quoted(t *testing.T, text string) string {
	t.Helper()
	line := testkit.Encode(t, text)
	return string(line)
}
