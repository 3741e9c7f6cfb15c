package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/catalog"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// TestSlowReaderGetsAllOfALargeDocument has another client answered while the kernel has no room for the document.
func TestSlowReaderGetsAllOfALargeDocument(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{largeExam(testExam)}})
	want := a.get(examPath + "/overview").body
	request := "GET " + examPath + "/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Key + "\r\n\r\n"
	conn := a.dial(t, "tcp")
	reader := bufio.NewReader(conn)
	for range 2 { // it is answered again on the same connection
		write(t, conn, request)
		if _, err := reader.Peek(1); err != nil { // the answer has begun
			t.Fatal(err)
		}
		if got := a.get("/v1/exam-prep/list"); got.status != http.StatusOK {
			t.Fatal(got.status)
		}
		got, err := http.ReadResponse(reader, nil)
		check.NoError(t, err)
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != want {
			t.Fatalf("%d bytes that are not the %d of the document, %v", len(body), len(want), err)
		}
		_ = got.Body.Close()
	}
}

// TestClientThatNeverReadsIsCut has the server stop: the connection ends with the time for writing.
func TestClientThatNeverReadsIsCut(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: []catalog.Exam{largeExam(testExam)}, Config: httpapi.Config{WriteTimeout: 100 * time.Millisecond}})
	conn := a.dial(t, "tcp")
	write(t, conn, "GET "+examPath+"/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+a.Key+"\r\n\r\n")
	testkit.Eventually(t, "the request is answered", func() bool {
		return a.metric("examprep_http_requests_total", map[string]string{"operation": "getExamOverview", "status": "2xx"}) == 1
	})
	check.Succeeds(t, a.Stop(), "the connection outlasts the time for its answer")
}

// largeExam is an exam whose overview is larger than what a socket takes unread.
func largeExam(key string) catalog.Exam {
	exam := sampleExam(key)
	exam.Sections[0].Skills = slices.Repeat([]string{strings.Repeat("patience ", 30)}, 1000)
	exam.Sections = slices.Repeat(exam.Sections, 20)
	return exam
}
