package ui_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

// programs are the names of the Chromium program.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// program finds Chromium, or skips the test.
func program(t *testing.T) string {
	t.Helper()
	if named := os.Getenv("STOUT_TEST_BROWSER"); named != "" {
		return named
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here; .ci/chromium installs one, or STOUT_TEST_BROWSER names one")
	return ""
}

// browser is one Chromium for all tests; TestMain ends it.
var browser struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

func TestMain(m *testing.M) {
	testrun.Wait(3)
	code := testrun.Main(m.Run)
	if browser.end != nil {
		browser.end()
	}
	os.Exit(code)
}

func startBrowser(t *testing.T) context.Context {
	t.Helper()
	name := program(t)
	browser.once.Do(func() {
		dir, err := os.MkdirTemp("", "stout-ui-")
		if err != nil {
			browser.err = err
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(name), chromedp.UserDataDir(dir), chromedp.NoSandbox,
			chromedp.WSURLReadTimeout(cell.Step), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-dev-shm-usage", true))
		alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(alloc)
		browser.ctx, browser.end = ctx, func() {
			end()
			endAlloc()
			_ = os.RemoveAll(dir)
		}
		browser.err = chromedp.Do(ctx)
	})
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	return browser.ctx
}

// tab is a page in its own browser context, without the storage of other tests.
// A complaint of the page fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu      sync.Mutex
	grieves []string
	allowed []string // parts of complaints that the test causes
}

type size struct{ width, height int64 }

var (
	desk  = size{1280, 800}
	phone = size{390, 844}
)

// open shows the page of a replica; where is the text after #/.
func open(t *testing.T, base, where string, window size, scheme string) *tab {
	t.Helper()
	parent := startBrowser(t)
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, base: base}
	must(t, chromedp.Listen(ctx, p.listen))
	p.do(chromedp.Func(func(ctx context.Context, at *chromedp.Target) error {
		if _, err := cdp.Call(ctx, at, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: window.width, Height: window.height, DeviceScaleFactor: 1, Mobile: window == phone}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, at, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}), chromedp.Navigate(base+"/ui/"+hash(where)))
	t.Cleanup(func() {
		if t.Failed() {
			p.shoot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		for _, complaint := range p.complaints() {
			t.Error(complaint)
		}
	})
	return p
}

func hash(where string) string {
	if where == "" {
		return ""
	}
	return "#/" + where
}

// listen records what a page must not do: complain, or send a request to
// another host.
func (p *tab) listen(event any) {
	var complaint string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console.%s: %v", e.Type, args(e.Args))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceViolation {
			complaint = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme+"://"+u.Host != p.base {
			complaint = "it asks " + e.Request.URL
		}
	}
	if complaint != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.grieves = append(p.grieves, complaint)
	}
}

func args(all []*runtime.RemoteObject) (out []string) {
	for _, a := range all {
		out = append(out, string(a.Value), a.Description)
	}
	return out
}

// expects names complaints that the test itself causes.
func (p *tab) expects(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, parts...)
}

func (p *tab) complaints() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, g := range p.grieves {
		for _, part := range p.allowed {
			if strings.Contains(g, part) {
				continue next
			}
		}
		out = append(out, g)
	}
	return out
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, cell.Step)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval evaluates an expression in the page, and waits if it is a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, cell.Step)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// until waits for an expression to be true, and returns how long that took. It
// polls inside the page, because chromedp's own polling compiles strings, which
// the page's policy forbids.
func (p *tab) until(expression string) time.Duration {
	p.t.Helper()
	const most = cell.Step - 30*time.Second // the rest is for the browser's answer
	began := time.Now()
	if !eval[bool](p, fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + %d;
		const ask = () => { if (%s) done(true); else if (performance.now() > end) done(false); else setTimeout(ask, 15); };
		ask();
	})`, most.Milliseconds(), expression)) {
		p.t.Fatalf("not within %v: %s; the page says: %s", most, expression, p.text("body"))
	}
	return time.Since(began)
}

func (p *tab) shows(selector, text string) time.Duration {
	p.t.Helper()
	return p.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q))`, selector, text))
}

// text returns the current text of a part of the page.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, selector))
}

func (p *tab) to(where string) {
	p.t.Helper()
	eval[string](p, fmt.Sprintf(`location.hash = %q`, hash(where)))
}

// shoot takes a screenshot if STOUT_TEST_SHOTS is set.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("STOUT_TEST_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("no picture %s: %v", name, err)
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
