package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/wire"
)

var errNoResponse = errors.New("no response")

func (r *Runner) ask(ctx context.Context, template string) (wire.Response, error) {
	outcome, err := r.play(ctx, script.Exchange{Send: []string{template}})
	if err != nil {
		return wire.Response{}, err
	}
	if len(outcome.Responses) == 0 {
		return wire.Response{}, fmt.Errorf("%w: the connection is %s", errNoResponse, outcome.End)
	}
	return outcome.Responses[0], nil
}

// Send sends one request from an address of its own.
func (r *Runner) Send(ctx context.Context, template string) (int, []byte, error) {
	response, err := r.ask(ctx, template)
	return response.Code(), response.Body, err
}

// Approve signs in at the provider.
func (r *Runner) Approve(ctx context.Context, address, subject, target string) error {
	r.mu.Lock()
	location := r.variables[address]
	r.mu.Unlock()
	back, err := r.stage.Approve(ctx, location, subject)
	if err != nil {
		return err
	}
	r.set(target, back)
	return nil
}

// SignIn signs a person in and keeps the session.
func (r *Runner) SignIn(ctx context.Context, person string) error {
	begun, err := r.ask(ctx, "GET /v1/developer/sign-in HTTP/1.1\r\nHost: record\r\n\r\n")
	if err != nil {
		return fmt.Errorf("sign in %s: %w", person, err)
	}
	back, err := r.stage.Approve(ctx, begun.Get("Location"), person)
	if err != nil {
		return err
	}
	done, err := r.ask(ctx, "GET "+back+" HTTP/1.1\r\nHost: record\r\nCookie: __Host-examprep_sign_in="+
		cookie(begun, "__Host-examprep_sign_in")+"\r\n\r\n")
	if err != nil {
		return fmt.Errorf("sign in %s: %w", person, err)
	}
	session := cookie(done, "__Host-examprep_session")
	if session == "" {
		return fmt.Errorf("sign in %s: no session: %s %s", person, done.Status, done.Body)
	}
	r.set(person, session)
	return nil
}

// Execute runs a statement in the server's database.
func (r *Runner) Execute(ctx context.Context, statement string) error {
	return r.stage.Execute(ctx, statement)
}

// Hold opens connections that have sent one request and got its response, and closes them when the capture ends.
func (r *Runner) Hold(ctx context.Context, source string, count int) error {
	address, err := r.source(source)
	if err != nil {
		return err
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: address.AsSlice()}}
	for range count {
		conn, err := dialer.DialContext(ctx, "tcp", r.stage.Address)
		if err != nil {
			return fmt.Errorf("hold a connection: %w", err)
		}
		r.held.Go(func() {
			<-r.release
			_ = conn.Close()
		})
		if _, err := conn.Write([]byte("GET /nowhere HTTP/1.1\r\nHost: record\r\n\r\n")); err != nil {
			return fmt.Errorf("hold a connection: %w", err)
		}
		if _, err := conn.Read(make([]byte, 4096)); err != nil {
			return fmt.Errorf("hold a connection: %w", err)
		}
	}
	return nil
}

// fillStock creates as many keys as exchanges need, through the developer endpoints: a command for each would take minutes.
func (r *Runner) fillStock(ctx context.Context, groups []script.Group) error {
	const template = "POST /v1/developer/keys HTTP/1.1\r\nHost: record\r\nCookie: __Host-examprep_session=<<stock>>\r\n" +
		"Content-Type: application/json\r\nContent-Length: <<length>>\r\n\r\n{\"name\":\"stock\"}"
	wanted := countFresh(groups)
	for i := range wanted {
		if i%100 == 0 { // a session may send 120 requests at once
			if err := r.SignIn(ctx, "stock"); err != nil {
				return err
			}
		}
		response, err := r.ask(ctx, template)
		if err != nil {
			return fmt.Errorf("fill the stock of keys: %w", err)
		}
		key := member(response.Body, "key")
		if response.Code() != http.StatusCreated || key == "" {
			return fmt.Errorf("fill the stock of keys: %s: %s", response.Status, response.Body)
		}
		r.stock = append(r.stock, key)
	}
	slices.Reverse(r.stock)
	r.report("%d keys in stock", wanted)
	return nil
}

// shown is an exchange's request as it is recorded: its templates, long ones shortened.
func shown(exchange script.Exchange) string {
	var text strings.Builder
	for i, segment := range exchange.Send {
		if i > 0 {
			text.WriteString("<<pause>>")
		}
		text.WriteString(segment)
	}
	if exchange.HalfClose {
		text.WriteString("<<end>>")
	}
	return printable([]byte(text.String()), longestRequest)
}
