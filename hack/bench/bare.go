package main

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

// serveBare is the baseline of the gate's measurement: a fasthttp server that answers everything with the same header
// lines and body. Its arguments are an address and a file with both, an empty line between them.
func serveBare(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s wants an address and a file", roleBare)
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	head, body, found := bytes.Cut(text, []byte("\n\n"))
	if !found {
		return fmt.Errorf("%s: no empty line ends the head", args[1])
	}
	type line struct{ name, value []byte }
	var lines []line
	var contentType []byte
	for text := range strings.SplitSeq(string(head), "\n") {
		name, value, _ := strings.Cut(text, ": ")
		switch name {
		case fasthttp.HeaderContentLength, fasthttp.HeaderDate: // the server's own
		case fasthttp.HeaderContentType:
			contentType = []byte(value)
		default:
			lines = append(lines, line{[]byte(name), []byte(value)})
		}
	}
	runtime.GOMAXPROCS(podProcessors) // as the API, with which it is compared
	server := &fasthttp.Server{
		NoDefaultServerHeader: true, NoDefaultContentType: true,
		WriteBufferSize: 8 << 10, // as the API: head and body leave in one system call
		Handler: func(ctx *fasthttp.RequestCtx) {
			for _, line := range lines {
				ctx.Response.Header.SetCanonical(line.name, line.value)
			}
			ctx.Response.Header.SetContentTypeBytes(contentType)
			ctx.Response.SetBodyRaw(body)
		},
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.ShutdownWithContext(stopping) // what is still connected is ours
		return nil
	})
	return group.Wait()
}
