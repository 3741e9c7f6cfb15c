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
	response, content, err := b.send(request)
	switch {
	case err != nil:
		return err
	case response.StatusCode != status:
		return &StatusError{Request: method + " " + path, Status: response.StatusCode, Body: strings.TrimSpace(string(content))}
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(content, result); err != nil {
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
	response, content, err := b.send(request)
	if err != nil {
		return "", err
	}
	next, err := response.Location()
	if err != nil {
		return "", &StatusError{Request: method + " " + request.URL.Path, Status: response.StatusCode, Body: strings.TrimSpace(string(content))}
	}
	return next.String(), nil
}

// send sends a request with the cookies, and keeps those of the response.
func (b *Browser) send(request *http.Request) (*http.Response, []byte, error) {
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if len(b.cookies) > 0 {
		request.Header.Set("Cookie", b.Cookie())
	}
	response, err := b.client.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errors.Unwrap(err)) // without the query, which has the code
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	for _, cookie := range response.Cookies() {
		if cookie.MaxAge >= 0 { // the others are removed
			b.cookies = append(b.cookies, cookie)
		}
	}
	return response, content, nil
}
