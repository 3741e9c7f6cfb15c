package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"
)

// Header is one header line as it was received, without the line end.
type Header struct{ Name, Value string }

// Response is one HTTP response. Body has no chunk framing, but may still have a content coding.
type Response struct {
	Status  string // the whole status line
	Headers []Header
	Body    []byte
}

// Code returns the status code, or 0 if the status line has none.
func (r Response) Code() int {
	fields := strings.Fields(r.Status)
	if len(fields) < 2 {
		return 0
	}
	code, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return code
}

// Get returns the value of the first header line of that name, in any case.
func (r Response) Get(name string) string {
	for _, header := range r.Headers {
		if strings.EqualFold(header.Name, name) {
			return header.Value
		}
	}
	return ""
}

// Closes reports whether the response announces the end of its connection.
func (r Response) Closes() bool { return strings.EqualFold(r.Get("Connection"), "close") }

// interim reports whether a final response follows.
func (r Response) interim() bool { return r.Code() >= 100 && r.Code() < 200 }

// MalformedError is a response that is not HTTP.
type MalformedError struct{ Line string }

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed response line %q", e.Line) }

// readResponse reads one response; one to HEAD has no body.
func readResponse(reader *bufio.Reader, head bool) (Response, error) {
	var response Response
	status, err := readLine(reader)
	if err != nil {
		return response, err
	}
	if !strings.HasPrefix(status, "HTTP/1.") {
		return response, &MalformedError{Line: status}
	}
	response.Status = status
	for {
		line, err := readLine(reader)
		if err != nil {
			return response, unexpected(err)
		}
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return response, &MalformedError{Line: line}
		}
		response.Headers = append(response.Headers, Header{Name: name, Value: strings.TrimSpace(value)})
	}
	response.Body, err = readBody(reader, response, head)
	return response, unexpected(err)
}

func readLine(reader *bufio.Reader) (string, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		if line != "" {
			err = unexpected(err)
		}
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// unexpected turns the end of the stream inside a response into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readBody(reader *bufio.Reader, response Response, head bool) ([]byte, error) {
	code := response.Code()
	switch {
	case head, response.interim(), code == 204, code == 304:
		return nil, nil
	case strings.EqualFold(response.Get("Transfer-Encoding"), "chunked"):
		body, err := io.ReadAll(httputil.NewChunkedReader(reader))
		if err != nil {
			return body, err
		}
		for { // trailers
			line, err := readLine(reader)
			if err != nil || line == "" {
				return body, err
			}
		}
	case response.Get("Content-Length") != "":
		length, err := strconv.ParseUint(response.Get("Content-Length"), 10, 31)
		if err != nil {
			return nil, &MalformedError{Line: "Content-Length: " + response.Get("Content-Length")}
		}
		body := make([]byte, length)
		read, err := io.ReadFull(reader, body)
		return body[:read], err
	default:
		return io.ReadAll(reader)
	}
}
