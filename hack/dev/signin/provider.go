package signin

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	codeLifetime  = time.Minute
	tokenLifetime = time.Hour
	// pending bounds how many codes wait at once; a browser makes one.
	pending = 1000
)

// Config is the one client that the provider knows.
type Config struct {
	Issuer       string // http://127.0.0.1:port, without a path
	ClientID     string
	ClientSecret string
	RedirectURL  string // the only one that is accepted
	Users        []User
	Now          func() time.Time // nil: time.Now
}

// User is somebody whom one may sign in as.
type User struct{ Subject, Email, Name string }

// Provider serves the protocol. Make one with New.
type Provider struct {
	cfg   Config
	key   *rsa.PrivateKey
	keyID string

	mu    sync.Mutex
	codes map[string]grant
}

// grant is what a code stands for.
type grant struct {
	user             User
	nonce, challenge string
	expires          time.Time
}

// New returns a provider with a signing key of its own.
func New(cfg Config) (*Provider, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make the provider's key: %w", err)
	}
	digest := sha256.Sum256(key.N.Bytes())
	return &Provider{cfg: cfg, key: key, keyID: hex.EncodeToString(digest[:8]), codes: make(map[string]grant)}, nil
}

// Serve answers on the listener until ctx ends.
func (p *Provider) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: p.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second}
	closed := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer closed()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the sign-in provider: %w", err)
	}
	return nil
}

// Handler returns the provider's routes.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.choose)
	mux.HandleFunc("POST /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	return mux
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": p.cfg.Issuer, "authorization_endpoint": p.cfg.Issuer + "/authorize",
		"token_endpoint": p.cfg.Issuer + "/token", "jwks_uri": p.cfg.Issuer + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"scopes_supported":                      []string{"openid", "email", "profile"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post"},
		"code_challenge_methods_supported":      []string{"S256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": p.keyID,
		"n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

var page = template.Must(template.New("choose").Parse(`<!doctype html><html lang="en"><meta charset="utf-8">
<title>Sign in · development</title><h1>Sign in as</h1>
{{range .Users}}<form method="post"><input type="hidden" name="subject" value="{{.Subject}}">
<button>{{.Name}} &lt;{{.Email}}&gt;</button></form>{{end}}
<p>This provider belongs to <code>make dev</code>. It asks for no password.</p>`))

func (p *Provider) choose(w http.ResponseWriter, r *http.Request) {
	if err := p.checkRequest(r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // never a redirect to an address that is not ours
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, p.cfg) // the browser went away
}

// checkRequest takes an authorization request only from our client, with PKCE.
func (p *Provider) checkRequest(query url.Values) error {
	switch {
	case query.Get("client_id") != p.cfg.ClientID:
		return errors.New("client_id is not known here")
	case query.Get("redirect_uri") != p.cfg.RedirectURL:
		return fmt.Errorf("redirect_uri must be %s", p.cfg.RedirectURL)
	case query.Get("response_type") != "code":
		return errors.New("response_type must be code")
	case query.Get("code_challenge") == "" || query.Get("code_challenge_method") != "S256":
		return errors.New("code_challenge_method must be S256, with a code_challenge")
	case !strings.Contains(" "+query.Get("scope")+" ", " openid "):
		return errors.New("scope must contain openid")
	default:
		return nil
	}
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if err := p.checkRequest(query); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, user := range p.cfg.Users {
		if user.Subject == r.PostFormValue("subject") {
			back := url.Values{"code": {p.issue(user, query)}, "state": {query.Get("state")}}
			http.Redirect(w, r, p.cfg.RedirectURL+"?"+back.Encode(), http.StatusSeeOther)
			return
		}
	}
	http.Error(w, "nobody of that name", http.StatusBadRequest)
}

func (p *Provider) issue(user User, query url.Values) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	for code, waiting := range p.codes {
		if now.After(waiting.expires) || len(p.codes) >= pending {
			delete(p.codes, code)
		}
	}
	code := rand.Text()
	p.codes[code] = grant{user: user, nonce: query.Get("nonce"), challenge: query.Get("code_challenge"), expires: now.Add(codeLifetime)}
	return code
}

// redeem takes a code, once.
func (p *Provider) redeem(code, verifier string) (grant, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	granted, ok := p.codes[code]
	delete(p.codes, code)
	digest := sha256.Sum256([]byte(verifier))
	return granted, ok && !p.cfg.Now().After(granted.expires) && same(encode(digest[:]), granted.challenge)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749, 2.3.1: form-encoded before they are joined
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if !same(id, p.cfg.ClientID) || !same(secret, p.cfg.ClientSecret) {
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	if r.PostFormValue("grant_type") != "authorization_code" {
		refuse(w, http.StatusBadRequest, "unsupported_grant_type")
		return
	}
	granted, ok := p.redeem(r.PostFormValue("code"), r.PostFormValue("code_verifier"))
	if !ok || r.PostFormValue("redirect_uri") != p.cfg.RedirectURL {
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	idToken, err := p.sign(granted)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error")
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(tokenLifetime.Seconds()), "id_token": idToken,
	})
}

func (p *Provider) sign(granted grant) (string, error) {
	now := p.cfg.Now()
	header, errHeader := json.Marshal(map[string]any{"alg": "RS256", "typ": "JWT", "kid": p.keyID})
	claims, errClaims := json.Marshal(map[string]any{
		"iss": p.cfg.Issuer, "aud": p.cfg.ClientID, "sub": granted.user.Subject, "nonce": granted.nonce,
		"email": granted.user.Email, "email_verified": true, "name": granted.user.Name,
		"iat": now.Unix(), "exp": now.Add(tokenLifetime).Unix(),
	})
	signed := encode(header) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, digest[:])
	if err := errors.Join(errHeader, errClaims, err); err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed + "." + encode(signature), nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]any{"error": code})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // plain values encode; the client may go away
}
