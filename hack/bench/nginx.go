package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"

	"github.com/redis/go-redis/v9"

	"examprep.dev/hack/bench/baseline"
	"examprep.dev/hack/dev/process"
	"examprep.dev/hack/dev/servers"
)

// processNginx is nginx, its workers included.
const processNginx = "nginx"

// nginxSettings fill in nginx's configuration.
type nginxSettings struct {
	Dir, Address, Modules, User, ContentType string
	Workers                                  int
	Headers                                  []string
}

// startNginx runs nginx with lua in front of the document, and returns where it listens.
func (s *stack) startNginx(ctx context.Context, document answer) (string, error) {
	if err := servers.Require(servers.NginxLua()); err != nil {
		return "", &skippedError{err}
	}
	address, err := s.ports.Address(ctx, processNginx)
	if err != nil {
		return "", err
	}
	dir := s.dir.Path("nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	settings := nginxSettings{
		Dir: dir, Address: address, Modules: servers.NginxModules, Workers: runtime.NumCPU(),
		ContentType: document.header.Get("Content-Type"), Headers: constantHeaders(document.header),
	}
	if os.Geteuid() == 0 {
		settings.User = "user nobody nogroup;"
	}
	if err := s.writeNginx(ctx, dir, settings, document.body); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return address, s.supervisor.Start(ctx, process.Spec{
		Name: processNginx, Path: servers.Look("nginx"), Args: []string{"-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"},
		Ready: func(ctx context.Context) error { // it refuses a request without a key
			got, err := ask(ctx, address, "")
			if err == nil && got.status != http.StatusUnauthorized {
				err = &statusError{got.status, string(got.body)}
			}
			return err
		},
	})
}

// writeNginx writes the files that nginx reads. They contain the password of Redis.
func (s *stack) writeNginx(ctx context.Context, dir string, settings nginxSettings, body []byte) error {
	text, err := template.ParseFS(baseline.Nginx, "nginx.conf")
	if err != nil {
		return err
	}
	var conf strings.Builder
	if err := text.Execute(&conf, settings); err != nil {
		return err
	}
	gate, err := baseline.Nginx.ReadFile("gate.lua")
	if err != nil {
		return err
	}
	keys := filepath.Join(dir, "keys")
	lua, err := s.luaSettings(ctx, keys, body)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"nginx.conf": conf.String(), "gate.lua": string(gate), "settings.lua": lua, "keys": s.nginxKeys()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// luaSettings is what gate.lua must know about this run: Redis' address, the script's digest, the file of the keys, and the
// document.
func (s *stack) luaSettings(ctx context.Context, keys string, body []byte) (string, error) {
	at, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(at.Addr)
	if err != nil {
		return "", err
	}
	sha, err := s.redis.ScriptLoad(ctx, baseline.Take).Result()
	if err != nil {
		return "", fmt.Errorf("load take.lua: %w", err)
	}
	return fmt.Sprintf("return { host = %s, port = %s, password = %s, sha = %s, buckets = 'bench:nginx', keys = %s, body = %s }\n",
		luaString(host), port, luaString(at.Password), luaString(sha), luaString(keys), luaString(string(body))), nil
}

// luaString is a literal of any bytes.
func luaString(text string) string {
	literal := []byte{'"'}
	for _, b := range []byte(text) {
		literal = append(literal, '\\')
		literal = append(literal, fmt.Sprintf("%03d", b)...)
	}
	return string(append(literal, '"'))
}

// constantHeaders returns the header lines that are the same in each answer, as nginx writes them.
func constantHeaders(header http.Header) []string {
	var lines []string
	for name, values := range header {
		switch strings.ToLower(name) {
		case "content-length", "content-type", "date", "x-request-id", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy":
			continue // different in each answer, or written by the server itself
		}
		for _, value := range values {
			lines = append(lines, name+" "+strconv.Quote(value))
		}
	}
	return lines
}
