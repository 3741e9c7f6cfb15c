package command

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type client struct {
	*env
	pool     *pgxpool.Pool
	address  string
	key      string
	learner  string
	attempts []string
	// statuses counts the answers.
	statuses map[int]int
}

func (c *client) send(method, path, body string, header map[string]string) (int, string) {
	c.t.Helper()
	all := map[string]string{"Authorization": "Bearer " + c.key, "Content-Type": "application/json", "X-Request-Id": canary}
	maps.Copy(all, header)
	answer, content := testkit.Call(c.t, http.DefaultTransport.RoundTrip, method, "http://"+c.address+path, body, all)
	c.statuses[answer.StatusCode]++
	return answer.StatusCode, content
}

// must sends a request whose status is known.
func (c *client) must(status int, method, path, body string) string {
	c.t.Helper()
	got, content := c.send(method, path, body, nil)
	if got != status {
		c.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, content, status)
	}
	return content
}

// fields is a JSON object of the learner's reference and more.
func (c *client) fields(more map[string]any) string {
	all := map[string]any{"learner_id": c.learner}
	maps.Copy(all, more)
	text := testkit.Encode(c.t, all)
	return string(text)
}

func (c *client) open() string {
	c.t.Helper()
	var opened struct {
		ID string `json:"attempt_id"`
	}
	testkit.Decode(c.t, []byte(c.must(200, "POST", examPath+"/mock-exams/open", c.fields(map[string]any{"paper_id": privatePaper}))), &opened)
	c.attempts = append(c.attempts, opened.ID)
	return opened.ID
}

func (c *client) submission(id, letter string) string {
	return c.fields(map[string]any{"attempt_id": id, "answers": map[string]string{"1:1": letter}})
}

// behaves opens, pages, submits, submits again and lists: all as it should be, in every encoding.
func (c *client) behaves() {
	c.t.Helper()
	id := c.open()
	paper := map[string]any{"paper_id": privatePaper}
	c.must(200, "POST", examPath+"/mock-exams/questions", c.fields(paper))
	escaped := `{"paper_id":"` + privatePaper + `","learner_id":"` + asciiJSON(c.learner, 0) + `"}`
	c.must(200, "POST", examPath+"/mock-exams/questions", escaped)
	first := c.must(200, "POST", examPath+"/mock-exams/submit", c.submission(id, "B"))
	check.Equal(c.t, c.must(200, "POST", examPath+"/mock-exams/submit", c.submission(id, "B")), first, "answer to the second submission")
	c.must(400, "POST", examPath+"/mock-exams/submit", c.submission(id, "A"))
	for _, status := range []string{"expired", "abandoned"} {
		c.must(200, "POST", examPath+"/mock-exams/submit", c.fields(map[string]any{"attempt_id": c.open(), "answers": map[string]string{}, "status": status}))
	}
	for _, encoded := range []string{url.QueryEscape(c.learner), percentEncoded(c.learner)} {
		if list := c.must(200, "GET", examPath+"/mock-exams/history?learner_id="+encoded, ""); !strings.Contains(list, `"total":3`) {
			c.t.Errorf("%q by %s: %s", c.learner, encoded, list)
		}
	}
	c.send("HEAD", examPath+"/mock-exams/history?learner_id="+url.QueryEscape(c.learner), "", nil)
	late := c.open()
	c.moveDeadline(late, "2 hours")
	c.must(200, "POST", examPath+"/mock-exams/submit", c.submission(late, "B"))
	closed := c.open()
	c.moveDeadline(closed, "25 hours")
	c.must(400, "POST", examPath+"/mock-exams/submit", c.submission(closed, "B"))
}

// moveDeadline lets an attempt's time have been over for a while.
func (c *client) moveDeadline(id, ago string) {
	c.t.Helper()
	testkit.Exec(c.t, c.pool, "UPDATE attempts SET opened_at = now() - interval '2 days', expires_at = now() - $2::text::interval WHERE id = $1",
		id, ago)
}

// blunders makes every mistake that is still HTTP.
func (c *client) blunders() {
	c.t.Helper()
	learner, query := jsonText(c.learner), url.QueryEscape(c.learner)
	const open, page, submit, history = examPath + "/mock-exams/open", examPath + "/mock-exams/questions", examPath + "/mock-exams/submit", examPath + "/mock-exams/history"
	anybody := strings.Repeat("0", 8) + "-0000-7000-8000-000000000000"
	for _, b := range []struct {
		status             int
		method, path, body string
	}{
		{400, "POST", open, c.fields(map[string]any{"paper_id": "short"})},
		{400, "POST", open, c.fields(map[string]any{"paper_id": privatePaper, "question_limit": 99})},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":["` + learner + `"]}`},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":{"` + learner + `":1}}`},
		{400, "POST", open, `{"learner_id":"` + learner + `","paper_id":"` + privatePaper + `","learner_id":"` + learner + `"}`},
		{400, "POST", open, `{"` + learner + `":1,"` + learner + `":2,"paper_id":"` + privatePaper + `"}`},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":"` + learner},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":"` + learner + "\xff\"}"},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":"` + learner + `","question_limit":0}`},
		{400, "POST", open, `{"paper_id":"` + privatePaper + `","learner_id":"` + learner + `"} ` + learner},
		{400, "POST", page, learner},
		{400, "POST", open, c.fields(map[string]any{"paper_id": privatePaper, "learner_id": strings.Repeat(c.learner, 20)})},
		{404, "POST", page, c.fields(map[string]any{"paper_id": strings.Repeat("p", 20)})},
		{404, "POST", submit, c.fields(map[string]any{"attempt_id": anybody, "answers": map[string]string{}})},
		{400, "POST", submit, c.fields(map[string]any{"attempt_id": c.open(), "answers": map[string]string{c.learner: "A"}})},
		{400, "POST", submit, c.fields(map[string]any{"attempt_id": c.open(), "answers": map[string]string{"1:1": c.learner}})},
		{400, "POST", submit, c.fields(map[string]any{"attempt_id": anybody, "answers": map[string]string{}, "status": c.learner})},
		{400, "GET", history + "?learner_id=" + query + "&learner_id=" + query, ""},
		{400, "GET", history + "?learner_id=" + query + query + query + strings.Repeat(query, 20), ""},
		{400, "GET", history + "?limit=" + query, ""},
		{400, "GET", history + "?learner_id=" + query + "%zz", ""},
		{400, "GET", history + "?learner_id=" + query + "%ff", ""},
		{200, "GET", "/v1/exam-prep/list?learner_id=" + query + "&country=" + query, ""},
		{404, "GET", "/v1/exam-prep/" + url.PathEscape(c.learner) + "/overview?learner_id=" + query, ""},
		{404, "GET", "/v1/learners/" + percentEncoded(c.learner), ""},
		{405, "DELETE", history + "?learner_id=" + query, ""},
		{413, "POST", open, c.fields(map[string]any{"paper_id": privatePaper, "more": strings.Repeat(learner, 1<<20/len(learner)+1)})},
	} {
		if got, content := c.send(b.method, b.path, b.body, nil); got != b.status {
			c.t.Errorf("%s %.200s %.300s: %d %s, want %d", b.method, b.path, b.body, got, content, b.status)
		}
	}
	paper := c.fields(map[string]any{"paper_id": privatePaper})
	id, own := c.open(), c.learner
	c.learner = learnerReferences[(slices.Index(learnerReferences, own)+1)%len(learnerReferences)]
	c.must(404, "POST", submit, c.submission(id, "B"))
	c.learner = own
	c.send("POST", open, paper, map[string]string{"Content-Type": "text/plain; name=" + query})
	c.send("POST", open, paper, map[string]string{"Authorization": "Bearer " + query})
	c.send("POST", page, paper, map[string]string{"X-Learner-Id": query, "Referer": "https://school.example/" + query, "User-Agent": query, "Cookie": "learner=" + query})
}

// blundersInHTTP sends what is hardly HTTP.
func (c *client) blundersInHTTP() {
	c.t.Helper()
	query := url.QueryEscape(c.learner)
	head := " " + examPath + "/mock-exams/history?learner_id=" + query
	authorization := "Authorization: Bearer " + c.key + "\r\nHost: x\r\n"
	for _, raw := range []string{
		"GET" + head + " HTTP/9.9\r\n\r\n",
		"GET" + head + "\r\n" + authorization + "\r\n",
		"GET" + head + " HTTP/1.1\r\n" + authorization + "Learner " + c.learner + "\r\n\r\n",
		"GET" + head + " HTTP/1.1\r\n" + authorization + "X: " + strings.Repeat(query, 64<<10/len(query)) + "\r\n\r\n",
		"G" + query + "T / HTTP/1.1\r\n" + authorization + "\r\n",
		c.learner + "\r\n\r\n",
		"POST " + examPath + "/mock-exams/open HTTP/1.1\r\n" + authorization + "Content-Length: " + query + "\r\n\r\n" + c.fields(nil),
		"POST " + examPath + "/mock-exams/open HTTP/1.1\r\n" + authorization + "Transfer-Encoding: chunked\r\n\r\n" + c.fields(nil) + "\r\n\r\n",
		"POST " + examPath + "/mock-exams/open HTTP/1.1\r\n" + authorization + "Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n" + c.fields(nil),
	} {
		connection, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", c.address)
		check.NoError(c.t, err)
		_, err = io.WriteString(connection, raw)
		check.NoError(c.t, err)
		tcp, _ := connection.(*net.TCPConn)
		_ = tcp.CloseWrite()
		if answer, err := http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
			c.statuses[answer.StatusCode]++
			_ = answer.Body.Close()
		}
		_ = connection.Close()
	}
}

// meetsTrouble sends requests while the server fails and while its stores are unavailable. It ends when the API uses Redis
// again.
func (c *client) meetsTrouble(api *testkit.Pod) {
	c.t.Helper()
	id := c.open()
	until := func(status int, method, path, body string) {
		c.t.Helper()
		testkit.Eventually(c.t, fmt.Sprintf("%s is answered %d", path, status), func() bool {
			got, _ := c.send(method, path, body, nil)
			return got == status
		})
	}
	// A connection that broke is met by one request more, now or later.
	ask := func(status int) {
		c.t.Helper()
		until(status, "POST", examPath+"/mock-exams/open", c.fields(map[string]any{"paper_id": privatePaper}))
		until(status, "POST", examPath+"/mock-exams/submit", c.submission(id, "B"))
		until(status, "GET", examPath+"/mock-exams/history?learner_id="+url.QueryEscape(c.learner), "")
	}
	rename := func(from, to string) {
		c.t.Helper()
		testkit.Exec(c.t, c.pool, "ALTER TABLE "+from+" RENAME TO "+to)
	}
	rename("attempt_counters", "counters_elsewhere")
	rename("attempts", "attempts_elsewhere")
	ask(http.StatusInternalServerError)
	rename("attempts_elsewhere", "attempts")
	rename("counters_elsewhere", "attempt_counters")
	c.Postgres.Cut(true)
	ask(http.StatusServiceUnavailable)
	c.Postgres.Cut(false)
	ask(http.StatusOK)
	// Until the api uses Redis again it grants a share of each allowance of its own.
	degraded := func(want string) {
		c.t.Helper()
		testkit.Eventually(c.t, "examprep_gate_degraded is "+want, func() bool {
			return strings.Contains(api.Scrape(), "\nexamprep_gate_degraded "+want+"\n")
		})
	}
	c.Redis.Cut(true)
	ask(http.StatusOK)
	degraded("1")
	c.Redis.Cut(false)
	degraded("0")
}

// isLimited asks with a key until its allowance is used up.
func (c *client) isLimited() {
	c.t.Helper()
	const allowance = 3
	check.NoError(c.t, c.store.ApplyTier(c.t.Context(), keys.TierSpec{Name: "small", Requests: allowance, Period: 24 * time.Hour}))
	issued, err := c.store.CreateFor(c.t.Context(), canary, keys.NewKey{Tier: "small"})
	check.NoError(c.t, err)
	c.key = issued.Key
	history := examPath + "/mock-exams/history?learner_id=" + url.QueryEscape(c.learner)
	for range allowance {
		c.must(http.StatusOK, "GET", history, "")
	}
	c.must(http.StatusTooManyRequests, "GET", history, "")
}

// leavesAnAttempt makes the sweep's work of whatever is open still.
func (c *client) leavesAnAttempt() {
	c.t.Helper()
	testkit.Exec(c.t, c.pool, "UPDATE attempts SET expires_at = now() - interval '25 hours' WHERE state = 'in_progress'")
}
