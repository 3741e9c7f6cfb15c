package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// browserVariable is set by make browser.
const browserVariable = "HTTPAPI_TEST_BROWSER"

// startChromium starts a browser that reaches this machine only. It ends with the test.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv(browserVariable) == "" {
		t.Skip("make browser runs the tests in a browser")
	}
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("there is no chromium: run make deps")
	}
	if err != nil {
		t.Skip("there is no chromium: run make deps")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"))
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	browser, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(closeBrowser)
	check.NoError(t, chromedp.Do(browser))
	return browser
}

// window is a window of the browser with cookies of its own.
type window struct {
	t      *testing.T
	origin string
	ctx    context.Context

	mu         sync.Mutex
	complaints []string
	// expected are parts of complaints that the test causes.
	expected []string
}

// listener keeps the notices that a page shows to assistive software, and counts its requests that are under way: one ends after the
// page has acted on its body.
const listener = `window.said = [];
window.underWay = 0;
const plainFetch = window.fetch;
window.fetch = async (...args) => {
	const end = () => setTimeout(() => window.underWay--);
	window.underWay++;
	try {
		const response = await plainFetch(...args);
		if (response.status === 204 || response.status === 401) end(); // the page does not read their bodies
		const read = response.json.bind(response);
		response.json = () => read().finally(end);
		return response;
	} catch (error) {
		end();
		throw error;
	}
};
new MutationObserver(() => {
	for (const e of document.querySelectorAll('[role=status], [role=alert]')) window.said.push(e.innerText);
}).observe(document, {subtree: true, childList: true, characterData: true});`

// newWindow opens an empty window, 1440 pixels wide. The test fails if the browser complains about a page that it shows.
func newWindow(t *testing.T, browser context.Context, origin string, options ...chromedp.ContextOption) *window {
	t.Helper()
	w := &window{t: t, origin: origin}
	ctx, closeWindow := chromedp.NewContext(browser, options...)
	check.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900)))
	ctx, cancel := context.WithTimeout(ctx, 10*testkit.Patience)
	w.ctx = ctx
	check.NoError(t, chromedp.Listen(ctx, w.listen))
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: listener})
	check.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the window shows at its end: %s", w.text())
		}
		cancel()
		closeWindow()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, complaint := range w.complaints {
			if !slices.ContainsFunc(w.expected, func(part string) bool { return strings.Contains(complaint, part) }) {
				t.Errorf("the browser complains: %s", complaint)
			}
		}
	})
	return w
}

// tab opens another tab of the window, with the same cookies.
func (w *window) tab() *window {
	w.t.Helper()
	return newWindow(w.t, w.ctx, w.origin)
}

// expect allows complaints with a part, such as the network's line for a status that the test causes.
func (w *window) expect(part string) { w.expected = append(w.expected, part) }

// complains reports whether the browser has complained about something with a part.
func (w *window) complains(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.complaints, func(complaint string) bool { return strings.Contains(complaint, part) })
}

func (w *window) listen(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			for _, arg := range e.Args {
				complaint += fmt.Sprintf("%s %s ", arg.Value, arg.Description)
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			break
		}
		if e.Entry.URL == "" || strings.HasPrefix(e.Entry.URL, w.origin) { // pages of other origins may be complained about
			complaint = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if complaint != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.complaints = append(w.complaints, complaint)
	}
}

// evaluate returns the value of an expression, or of its promise, with the rights of a person's click. A page that is left
// meanwhile is evaluated again.
func evaluate[V any](w *window, expression string) (value V) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, testkit.Patience)
	defer cancel()
	err := testkit.Await(ctx, "the value of "+expression, func(ctx context.Context) (err error) {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise,
			func(p *runtime.EvaluateParams) { p.UserGesture = new(true) }))
		return err
	})
	if err != nil {
		w.t.Fatalf("%v\nthe window shows: %s", err, w.text())
	}
	return value
}

// text is what the window shows.
func (w *window) text() string {
	shown, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	if err != nil && !errors.Is(err, context.Canceled) {
		return err.Error()
	}
	return shown
}

// visit goes to a path of the console, or to a whole address.
func (w *window) visit(path string) {
	w.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = w.origin + path
	}
	check.NoError(w.t, chromedp.Do(w.ctx, chromedp.Navigate(path)))
}

// resize shows the page so wide, in a colour scheme.
func (w *window) resize(width, height int64, scheme string) {
	w.t.Helper()
	check.NoError(w.t, chromedp.Do(w.ctx, chromedp.EmulateViewport(width, height)))
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	check.NoError(w.t, err)
}

// insert types a text where the focus is.
func (w *window) insert(text string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, input.InsertText, input.InsertTextParams{Text: text})
	check.NoError(w.t, err)
}

// strike strikes a key, such as kb.Tab.
func (w *window) strike(key string, options ...chromedp.KeyOption) {
	w.t.Helper()
	check.NoError(w.t, chromedp.Do(w.ctx, chromedp.KeyEvent(key, options...)))
}

// mouse clicks on a place: the count-th click of a multiple click.
func (w *window) mouse(x, y float64, count int64) {
	w.t.Helper()
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		_, err := chromedp.Call(w.ctx, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: count,
		})
		check.NoError(w.t, err)
	}
}
