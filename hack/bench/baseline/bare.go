package baseline

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

// Serve answers every GET with the header lines and the body of one file, and every POST with those of another, until ctx
// ends. In a file, an empty line ends the header lines. The server computes on one core, as the API pod that it is compared
// with does.
func Serve(ctx context.Context, address, getFile, postFile string) error {
	get, err := readAnswer(getFile)
	if err != nil {
		return err
	}
	post, err := readAnswer(postFile)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	server := &fasthttp.Server{
		NoDefaultServerHeader: true, NoDefaultContentType: true,
		WriteBufferSize: 8 << 10, // head and body leave in one system call
		Handler: func(ctx *fasthttp.RequestCtx) {
			if ctx.IsPost() {
				post.send(ctx)
				return
			}
			get.send(ctx)
		},
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.ShutdownWithContext(stopping) // only the load generator is still connected
		return nil
	})
	return group.Wait()
}

// answer is a response that never changes.
type answer struct {
	names, values     [][]byte
	contentType, body []byte
}

func readAnswer(file string) (*answer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the answer to send: %w", err)
	}
	head, body, found := bytes.Cut(text, []byte("\n\n"))
	if !found {
		return nil, fmt.Errorf("%s: no empty line ends the header lines", file)
	}
	a := &answer{body: body}
	for line := range strings.SplitSeq(string(head), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case fasthttp.HeaderContentLength, fasthttp.HeaderDate: // fasthttp writes them
		case fasthttp.HeaderContentType:
			a.contentType = []byte(value)
		default:
			a.names, a.values = append(a.names, []byte(name)), append(a.values, []byte(value))
		}
	}
	return a, nil
}

func (a *answer) send(ctx *fasthttp.RequestCtx) {
	for i, name := range a.names {
		ctx.Response.Header.SetCanonical(name, a.values[i])
	}
	ctx.Response.Header.SetContentTypeBytes(a.contentType)
	ctx.Response.SetBodyRaw(a.body)
}
