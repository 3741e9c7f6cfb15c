package signin

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/oauth2-proxy/mockoidc"
)

const (
	// Path is the path of each provider's issuer URL.
	Path = mockoidc.IssuerBase

	tokenLifetime  = time.Hour
	requestTimeout = 10 * time.Second
)

// Config describes the provider's only client.
type Config struct {
	Issuer       string // http://127.0.0.1:port + Path
	ClientID     string
	ClientSecret string
	RedirectURL  string // the only one that is accepted
	Users        []User
}

// User is a person to sign in as. The page shows the note next to the name.
type User struct{ Subject, Email, Name, Note string }

// Provider serves the protocol. Make one with New.
type Provider struct {
	cfg Config

	mu   sync.Mutex // mockoidc's handlers share sessions without a lock
	oidc *mockoidc.MockOIDC
}

// New returns a provider with its own signing key.
func New(cfg Config) (*Provider, error) {
	issuer, fits := strings.CutSuffix(cfg.Issuer, Path)
	address, plain := strings.CutPrefix(issuer, "http://")
	if !fits || !plain {
		return nil, fmt.Errorf("the issuer of the sign-in provider is %q: it must begin with http:// and end with %s", cfg.Issuer, Path)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048) // the default key of mockoidc is public
	if err != nil {
		return nil, fmt.Errorf("make the provider's key: %w", err)
	}
	provider, err := mockoidc.NewServer(key)
	if err != nil {
		return nil, fmt.Errorf("make the sign-in provider: %w", err)
	}
	provider.ClientID, provider.ClientSecret, provider.AccessTTL = cfg.ClientID, cfg.ClientSecret, tokenLifetime
	provider.CodeChallengeMethodsSupported = []string{mockoidc.CodeChallengeMethodS256}
	p := &Provider{cfg: cfg, oidc: provider}
	// mockoidc makes its endpoints' addresses of the server's.
	provider.Server = &http.Server{Addr: address, Handler: p.routes(), ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout}
	return p, nil
}

// Serve answers on the listener until ctx ends.
func (p *Provider) Serve(ctx context.Context, listener net.Listener) error {
	closed := context.AfterFunc(ctx, func() { _ = p.oidc.Server.Close() })
	defer closed()
	if err := p.oidc.Server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the sign-in provider: %w", err)
	}
	return nil
}

// Handler returns the provider's routes.
func (p *Provider) Handler() http.Handler { return p.oidc.Server.Handler }

func (p *Provider) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+mockoidc.DiscoveryEndpoint, p.oidc.Discovery)
	mux.HandleFunc("GET "+mockoidc.JWKSEndpoint, p.oidc.JWKS)
	mux.HandleFunc("GET "+mockoidc.AuthorizationEndpoint, p.choose)
	mux.HandleFunc("POST "+mockoidc.AuthorizationEndpoint, p.authorize)
	mux.HandleFunc("POST "+mockoidc.TokenEndpoint, p.oidc.Token)
	mux.HandleFunc("GET "+mockoidc.UserinfoEndpoint, p.oidc.Userinfo)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
}

var page = template.Must(template.New("choose").Parse(`<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>form { margin: .5em 0 }</style><title>Sign in · development</title><h1>Sign in as</h1>
{{range .Users}}<form method="post"><input type="hidden" name="subject" value="{{.Subject}}">
<button>{{.Name}} &lt;{{.Email}}&gt;</button> {{.Note}}</form>{{end}}
<p>This provider belongs to <code>make dev</code>. It asks for no password.</p>`))

func (p *Provider) choose(w http.ResponseWriter, r *http.Request) {
	if err := p.checkRequest(r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // never a redirect to another address than the client's
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, p.cfg) // the browser went away
}

// checkRequest accepts an authorization request only with the client's address and with PKCE. mockoidc checks the rest.
func (p *Provider) checkRequest(query url.Values) error {
	switch {
	case query.Get("client_id") != p.cfg.ClientID:
		return errors.New("client_id is not known here")
	case query.Get("redirect_uri") != p.cfg.RedirectURL:
		return fmt.Errorf("redirect_uri must be %s", p.cfg.RedirectURL)
	case query.Get("code_challenge") == "" || query.Get("code_challenge_method") != mockoidc.CodeChallengeMethodS256:
		return errors.New("code_challenge_method must be S256, with a code_challenge")
	case !strings.Contains(" "+query.Get("scope")+" ", " openid "):
		return errors.New("scope must contain openid")
	default:
		return nil
	}
}

// authorize sends the browser back as the user that was chosen.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	if err := p.checkRequest(r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, user := range p.cfg.Users {
		if user.Subject == r.PostFormValue("subject") {
			p.oidc.UserQueue = new(mockoidc.UserQueue) // without the user of a request that mockoidc refused
			p.oidc.QueueUser(&mockoidc.MockUser{
				Subject: user.Subject, Email: user.Email, EmailVerified: true, PreferredUsername: user.Name,
			})
			r.Form = r.URL.Query()
			p.oidc.Authorize(w, r)
			return
		}
	}
	http.Error(w, "subject is not a user of this provider", http.StatusBadRequest)
}
