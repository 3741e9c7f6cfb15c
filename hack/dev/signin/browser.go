package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxResponse bounds what is read of a response.
const maxResponse = 1 << 20

// Browser is a browser in which a user of a Provider signed in. Its cookies are marked for TLS only. A cookie jar would not
// send them over HTTP; browsers do so to a loopback address.
type Browser struct {
	api     string
	client  *http.Client
	cookies []*http.Cookie
}

// StatusError reports a response of another status than the wanted.
type StatusError struct {
	Request string // method and path
	Status  int
	Body    string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.Request, e.Status, e.Body)
}

// SignIn signs a user in at an API whose address is api, with the version. The API must send browsers to a Provider.
func SignIn(ctx context.Context, api, subject string) (*Browser, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	b := &Browser{api: api, client: client}
	chooser, err := b.redirect(ctx, http.MethodGet, api+"/developer/sign-in", nil)
	if err != nil {
		return nil, err
	}
	// The provider gets no cookie of the API.
	callback, err := (&Browser{client: client}).redirect(ctx, http.MethodPost, chooser, url.Values{"subject": {subject}})
	if err != nil {
		return nil, err
	}
	before := len(b.cookies)
	if _, err := b.redirect(ctx, http.MethodGet, callback, nil); err != nil {
		return nil, err
	}
	if len(b.cookies) == before {
		return nil, errors.New("the API refused the sign-in: its callback set no session cookie")
	}
	return b, nil
}

// Call makes a request to a path below /developer, with a body if it is not nil. It decodes the response into result,
// unless that is nil. Any other status than the wanted is a *StatusError.
func (b *Browser) Call(ctx context.Context, method, path string, body any, status int, result any) error {
	var text io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", method, path, err)
		}
		text = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, b.api+"/developer"+path, text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	got, err := b.send(request)
	switch {
	case err != nil:
		return err
	case got.status != status:
		return got.failure(request)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(got.body, result); err != nil {
		return fmt.Errorf("decode the response to %s %s: %w", method, path, err)
	}
	return nil
}

// Cookie returns the value of the header Cookie that the browser sends.
func (b *Browser) Cookie() string {
	pairs := make([]string, len(b.cookies))
	for i, cookie := range b.cookies {
		pairs[i] = cookie.Name + "=" + cookie.Value
	}
	return strings.Join(pairs, "; ")
}

// SignOut ends the session.
func (b *Browser) SignOut(ctx context.Context) error {
	return b.Call(ctx, http.MethodDelete, "/session", nil, http.StatusNoContent, nil)
}

// redirect makes a request, with a form if there is one, and returns the address that the response redirects to.
func (b *Browser) redirect(ctx context.Context, method, address string, form url.Values) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", method, address, err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	got, err := b.send(request)
	if err != nil {
		return "", err
	}
	if got.location == nil {
		return "", got.failure(request)
	}
	return got.location.String(), nil
}

// response is what matters of a response; location is nil if it leads nowhere.
type response struct {
	status   int
	location *url.URL
	body     []byte
}

// failure reports the response to a request.
func (r response) failure(request *http.Request) *StatusError {
	return &StatusError{Request: request.Method + " " + request.URL.Path, Status: r.status, Body: strings.TrimSpace(string(r.body))}
}

// send sends a request with the cookies, and keeps those of the response.
func (b *Browser) send(request *http.Request) (response, error) {
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if len(b.cookies) > 0 {
		request.Header.Set("Cookie", b.Cookie())
	}
	got, err := b.client.Do(request)
	if err != nil {
		return response{}, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errors.Unwrap(err)) // without the query, which has the code
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, maxResponse))
	if err != nil {
		return response{}, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	for _, cookie := range got.Cookies() {
		if cookie.MaxAge >= 0 { // the others are removed
			b.cookies = append(b.cookies, cookie)
		}
	}
	location, err := got.Location()
	if err != nil {
		location = nil // there is none
	}
	return response{status: got.StatusCode, location: location, body: body}, nil
}
