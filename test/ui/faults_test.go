package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// meddler lets a test answer the page's calls: answer(url, init) returns a
// response, or nothing if the replica is to answer. cut breaks the stream off.
const meddler = `{
	const real = fetch;
	window.refused = (status, code) => new Response(JSON.stringify({ code, detail: 'refused by the test' }), { status });
	window.fetch = async (url, init) => {
		const made = await window.answer?.(new URL(url), init);
		if (made) return made;
		if (init.headers.get('Accept') !== 'text/event-stream') return real(url, init);
		const both = new AbortController();
		init.signal.addEventListener('abort', () => both.abort());
		window.cut = () => both.abort();
		return real(url, { ...init, signal: both.signal });
	};
}`

// meddle opens the page with the meddler.
func meddle(t *testing.T, base, where string) *tab {
	t.Helper()
	p := open(t, base, where, desk, "light")
	p.do(chromedp.Func(func(ctx context.Context, at *chromedp.Target) error {
		_, err := cdp.Call(ctx, at, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: meddler})
		return err
	}), chromedp.Reload())
	p.until(`window.cut`)
	p.shows("#link", "live")
	return p
}

// answers sets the answers to the page's calls; body is the body of the
// function answer.
func (p *tab) answers(body string) {
	p.t.Helper()
	eval[bool](p, `(window.answer = async (url, init) => { `+body+` }, true)`)
}

// button waits for a lock's button Release, and clicks it.
func (p *tab) button(path string) {
	p.t.Helper()
	p.to("lock" + path)
	p.shows("h1", path)
	p.click(`td.act button`)
	p.shows("dialog", path)
}

// TestReleasedMeanwhile: a release by force does not claim to have released a
// grant that had ended.
func TestReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	a, b := at.session("ada", hour, nil), at.session("bob", hour, nil)
	at.lock(a, "/x")
	p := open(t, at.at.URL, "", desk, "light")
	p.button("/x")
	at.release(a, "/x")
	at.lock(b, "/x")
	p.click(`dialog button.danger`)
	p.shows("dialog .error", "This grant had already ended; the lock may have a new holder.")
}

// TestLateOutcomes: the user closes a dialog while its action runs. A note shows
// the outcome, which leaves the dialog of the next action alone.
func TestLateOutcomes(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	s := at.session("ada", hour, nil)
	for _, path := range []string{"/a", "/b", "/c"} {
		at.lock(s, path)
	}
	p := meddle(t, at.at.URL, "")
	for _, step := range []struct{ path, next, answer, kind, says string }{
		{"/a", "/b", `undefined`, ".good", "/a was released by force."},
		{"/b", "/c", `refused(409, 'conflict')`, ".bad", "Release /b by force? No success was reported: refused by the test"},
	} {
		p.answers(`if (init.method === 'DELETE') return new Promise(done => { window.outcome = () => done(` + step.answer + `); });`)
		p.button(step.path)
		p.click(`dialog button.danger`)
		p.until(`window.outcome`)
		p.do(chromedp.KeyEvent(kb.Escape))
		p.until(`!document.querySelector('dialog').open`)
		p.button(step.next)
		eval[bool](p, `(outcome(), window.outcome = null, true)`)
		p.shows(".note"+step.kind, step.says)
		p.until(`document.querySelector('dialog').open && !document.querySelector('dialog .error') && !document.querySelector('dialog button:disabled')`)
		p.shows("dialog", step.next)
		p.click(`dialog button`) // Cancel
	}
}

// TestMissedEvents: after events that the replica no longer keeps, the page
// shows the present locks although it is refused them at first, and an open
// file. It also shows a file after a read of it has failed.
func TestMissedEvents(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: append([]string{"--event-history", "20"}, calm...)})
	at := calls{t: t, at: c.Ready(t)}
	s := at.session("ada", hour, nil)
	at.lock(s, "/held")
	put(at, "/f", "first")
	p := meddle(t, at.at.URL, "locks")
	p.expects("status of 410") // it asks for events that are gone
	p.lists("/held")
	miss := func(text string) {
		t.Helper()
		p.answers(`if (url.pathname.endsWith('/v1/events')) return refused(429, 'too_many');`)
		eval[bool](p, `(cut(), true)`)
		p.shows("#link", "not live")
		for range 30 {
			put(at, "/f", text)
		}
	}
	miss("second")
	at.release(s, "/held")
	at.lock(s, "/new")
	p.answers(`if (url.pathname.endsWith('/v1/locks') && (window.left = (window.left ?? 3) - 1) > 0) return refused(429, 'too_many');`)
	p.shows(".note", "The locks can't be read: refused by the test")
	p.lists("/new")
	p.until(`!document.querySelector('#locks a[aria-label="/held"]')`)
	p.to("file/f")
	p.shows("pre", "second")
	miss("third")
	p.answers(``)
	p.shows("pre", "third")
	p.answers(`if (url.pathname.endsWith('/v1/files/f')) return refused(429, 'too_many');`)
	put(at, "/f", "fourth")
	p.shows("main .error", "refused by the test")
	p.shows("pre", "third")
	p.answers(``)
	p.shows("pre", "fourth")
	p.until(`!document.querySelector('main .error')`)
}

// TestFreedLocks: the page forgets a lock that was freed, also if no view has
// shown it.
func TestFreedLocks(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	p := open(t, at.at.URL, "cell", desk, "light")
	p.shows("#link", "live")
	eval[bool](p, `import('/ui/store.js').then(({ store }) => { window.store = store; return true; })`)
	s := at.session("ada", hour, nil)
	for i := range 3 {
		path := fmt.Sprintf("/job/%d", i)
		at.lock(s, path)
		at.release(s, path)
	}
	p.until(`store.locks.size === 3`)
	p.until(`store.locks.size === 0`)
}

// TestEditKept: a text that cannot be saved stays, and a save keeps the line
// ends of the file.
func TestEditKept(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	put(at, "/app/conf", "one\r\ntwo\r\n")
	put(at, "/app/mixed", "one\r\ntwo\n")
	p := meddle(t, at.at.URL, "file/app/conf")
	p.click(`section button.quietly`)
	p.until(`document.querySelector('textarea')`)
	eval[bool](p, `(e => { e.value = 'one\nthree\n'; e.dispatchEvent(new Event('input')); return true; })(document.querySelector('textarea'))`)
	p.answers(`if (url.pathname.endsWith('/v1/files/app/conf')) return refused(429, 'too_many');`)
	p.click(`button[type=submit]`)
	p.shows("form .error", "refused by the test")
	p.shows("main > .error", "refused by the test")
	p.until(`document.querySelector('textarea').value === 'one\nthree\n'`)
	// The caller signs in again, and returns to the view.
	eval[bool](p, `(dispatchEvent(new HashChangeEvent('hashchange')), true)`)
	p.until(`!document.querySelector('dl')`)
	p.until(`document.querySelector('textarea').value === 'one\nthree\n'`)
	p.answers(``)
	p.until(`!document.querySelector('button[type=submit]').disabled`)
	p.click(`button[type=submit]`)
	p.shows(".note", "/app/conf was written.")
	if f := call[lockapi.File](at, http.MethodGet, lockapi.RouteFiles+"/app/conf?as=json", nil); f.Content == nil || *f.Content != "one\r\nthree\r\n" {
		t.Errorf("the file has %+v", f)
	}
	p.to("file/app/mixed")
	p.shows("main", "line ends of several kinds")
	p.until(`!document.querySelector('section button.quietly')`)
}

// TestSessionsAgain: returning to the sessions, while their list is read, drops
// none of them.
func TestSessionsAgain(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	p := meddle(t, c.Ready(t).URL, "cell")
	p.answers(`
		if (!url.pathname.endsWith('/v1/sessions')) return;
		await new Promise(done => setTimeout(done, 50));
		const from = Number(url.searchParams.get('after') ?? 0);
		const sessions = [...Array(10).keys()].map(i => ({ id: String(from + i), name: '', holds: [], waits: [], meta: {}, ttl_ms: 1, created_at: '2026-01-01T00:00:00Z' }));
		return new Response(JSON.stringify({ sessions, next: from < 190 ? String(from + 10) : undefined }));`)
	p.to("sessions")
	p.until(`/^Reading… [1-9]/.test(document.querySelector('.verdict')?.innerText)`)
	eval[bool](p, `(location.hash = '#/cell', setTimeout(() => { location.hash = '#/sessions'; }, 20), true)`)
	p.until(`/^\d+ sessions/.test(document.querySelector('.verdict').innerText)`)
	for range 50 {
		if got := p.text(".verdict"); got != "200 sessions" {
			t.Fatalf("of 200 sessions the page shows %q", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestCallerIsTheTokens: the page shows the caller of the token that it sends,
// and forgets a token even if no replica answers.
func TestCallerIsTheTokens(t *testing.T) {
	t.Parallel()
	const root = "stout_0123456789abcdef0123456789abcdef0123456789"
	file := filepath.Join(t.TempDir(), "root")
	must(t, os.WriteFile(file, []byte(root), 0o600))
	c := cell.New(t, cell.Options{Size: 1, RootToken: file, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	at.lock(at.session("holder", hour, nil), "/secret")
	p := meddle(t, at.at.URL, "locks")
	p.expects("status of 401", "status of 403")
	const none = `sessionStorage.length === 0 && !document.querySelector('#main').innerText.includes('secret')`
	p.answers(`if (url.pathname.endsWith('/whoami')) return refused(429, 'too_many');`)
	p.sign(root)
	p.shows(".error", "refused by the test")
	p.until(none)
	p.answers(``)
	p.enter(root)
	p.shows("#bar", "user:root")
	p.lists("/secret")
	p.answers(`throw new TypeError('no replica answers');`)
	p.click(`#bar .end button`)
	p.until(none + ` && !document.querySelector('#bar').innerText.includes('user:root')`)
	p.answers(``)
	p.sign(root)
	p.lists("/secret")
	// An answer for the former caller ends after the headers, and is dropped.
	p.answers(`if (url.pathname.endsWith('/v1/cell')) return new Response(new ReadableStream({
		start(body) {
			window.finish = () => { body.enqueue(new TextEncoder().encode('{"cell": "former", "replicas": []}')); body.close(); };
		},
	}));`)
	p.until(`window.finish`)
	p.click(`#bar .end button`)
	p.until(none + ` && document.querySelector('#bar').innerText.includes('Enter a token')`)
	if kept := eval[string](p, `import('/ui/store.js').then(async ({ store }) => {
		finish();
		await new Promise(done => setTimeout(done, 300));
		return store.cell?.cell ?? store.cellError?.message ?? '';
	})`); kept != "" {
		t.Errorf("the former caller's answer left %q", kept)
	}
	p.answers(``)
	p.sign(root)
	p.lists("/secret")
	p.answers(`if (init.headers.get('Authorization')) return refused(401, 'unauthenticated');`)
	p.shows("form.sign", "refused by the test")
	p.click(`form.sign button[type=button]`)
	p.until(none + ` && document.querySelector('#bar').innerText.includes('Enter a token')`)
}

// TestDirectoryIsReadOnce: a deletion below a directory has it read again, and
// not for ever.
func TestDirectoryIsReadOnce(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	put(at, "/d/one/x", "x")
	put(at, "/d/two/x", "x")
	p := meddle(t, at.at.URL, "files/d/")
	p.shows("#files", "one/")
	p.answers(`if (url.pathname.endsWith('/v1/files')) window.reads = (window.reads ?? 0) + 1;`)
	call[any](at, http.MethodDelete, lockapi.RouteFiles+"/d/one/x", nil)
	p.until(`!document.querySelector('#files').innerText.includes('one/')`)
	time.Sleep(5 * time.Second)
	if reads := eval[int](p, `window.reads`); reads > 2 {
		t.Errorf("one deletion caused %d reads of the directory", reads)
	}
}

// TestPausesWithoutAnswers: while the replica does not answer, the page pauses
// before it repeats a call.
func TestPausesWithoutAnswers(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	p := meddle(t, c.Ready(t).URL, "cell")
	p.answers(`
		const name = url.pathname.split('/').pop();
		window.tries = { ...window.tries, [name]: (window.tries?.[name] ?? 0) + 1 };
		throw new TypeError('no replica answers');`)
	eval[bool](p, `import('/ui/store.js').then(({ store }) => { store.locksRead = false; cut(); return true; })`)
	p.until(`window.tries?.events && tries.locks`)
	time.Sleep(3 * time.Second)
	for _, name := range []string{"events", "locks"} {
		if tries := eval[int](p, `tries.`+name); tries > 8 {
			t.Errorf("the page asked for the %s %d times in 3 s", name, tries)
		}
	}
}
