package ui_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoutlock/stout/test/cell"
)

// TestHungReplica: a replica that accepts calls but does not answer is shown as
// hung, not as the healthy replica that it was. When it continues, so does the
// page.
func TestHungReplica(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	stands := c.Others(master)[0]
	p := open(t, stands.URL, "cell", desk, "light")
	p.expects("Failed to load resource")
	p.shows("#link", "live")
	p.shows(".verdict", "All replicas are healthy")
	must(t, stands.Pause())
	p.shows(".verdict", "this replica does not answer")
	p.shows(".note.bad", "The page of another replica: ")
	p.shows("#link", "no answer")
	p.shows("table", "was healthy")
	p.shoot("hung")
	at := calls{t: t, at: c.WaitMasterOf(t, c.Others(stands)...)}
	at.lock(at.session("holder", hour, nil), "/meanwhile")
	must(t, stands.Continue())
	p.shows("#link", "live")
	p.shows(".verdict", "All replicas are healthy")
	p.shows(".lines", "/meanwhile")
	p.until(`!document.querySelector('.note.bad')`)
}

// TestTwoTabs: both tabs are live and independent; back and forward move
// through one tab's views.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	fill(at)
	one, two := open(t, at.at.URL, "locks", desk, "light"), open(t, at.at.URL, "cell", phone, "light")
	one.lists("/db/migrate")
	two.shows("#link", "live")
	eval[bool](one, `(document.querySelector('#search').focus(), true)`)
	one.do(chromedp.KeyEvent("migrate"))
	one.until(`document.querySelectorAll('#locks tbody tr').length === 1`)
	one.click(`#locks td.path a`)
	one.shows("h1", "/db/migrate")
	one.click(`#holders ~ table a`)
	one.shows("h1", "billing@host7")
	at.lock(at.session("late", hour, nil), "/late")
	two.shows(".lines", "/late")
	for _, step := range []struct{ way, heading string }{
		{"back", "/db/migrate"}, {"back", "Locks"}, {"forward", "/db/migrate"}, {"forward", "billing@host7"}, {"back", "/db/migrate"}, {"back", "Locks"},
	} {
		eval[bool](one, `(history.`+step.way+`(), true)`)
		one.shows("h1", step.heading)
	}
	one.until(`document.querySelector('#search').value === 'migrate' && document.querySelectorAll('#locks tbody tr').length === 1`)
	two.shows("h1", "test")
}

// TestLongNames: names of the maximum length stay in their place, cut if
// necessary, and the page is no wider than its window.
func TestLongNames(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm, Name: strings.Repeat("cell", 16)})
	at := calls{t: t, at: c.Ready(t)}
	name, path := strings.Repeat("session-", 16), "/"+strings.Repeat("w", 255)+strings.Repeat("/part-of-a-path", 28)
	s := at.session(name, hour, map[string]string{strings.Repeat("k", 64): strings.Repeat("v", 200)})
	waits := at.session(name, hour, nil)
	at.lock(s, path)
	at.lock(waits, path)
	at.lock(waits, "/"+strings.Repeat("o", 255))
	at.lock(s, "/"+strings.Repeat("o", 255)) // now they wait for each other
	put(at, path, strings.Repeat("x", 5000))
	axe, err := os.ReadFile("testdata/axe.min.js")
	must(t, err)
	for _, window := range []size{desk, phone} {
		p := open(t, at.at.URL, "cell", window, "light")
		p.shows("#link", "live")
		for _, view := range []struct{ where, ready string }{
			{"cell", "All replicas are healthy"}, {"locks", "A cycle of waits"}, {"lock" + path, "Queue"}, {"sessions", "2 sessions"}, {"session/" + s.ID, "Holds"},
			{"files/", "www"}, {"file" + path, "SHA-256"}, {"events", "Events"}, {"members", "Directory"},
		} {
			p.to(view.where)
			p.shows("main", view.ready)
			first, _, _ := strings.Cut(strings.TrimPrefix(view.where, "/"), "/")
			p.shoot("long-" + first + map[bool]string{true: "-phone"}[window == phone])
			if wide := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s is %d px wider than its window of %d px", first, wide, window.width)
			}
			p.examine(string(axe))
		}
	}
}

// TestHiddenCharacters: invisible characters in a name, and characters that
// change the text direction, are shown as escapes, as on a terminal. The page's
// own text keeps its direction. The lines of a file are shown as they are.
func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm})
	at := calls{t: t, at: c.Ready(t)}
	s := at.session("eve\u202e\x1b[2J\nadam\u200b\U000e0041", hour, nil)
	at.lock(s, "/x")
	put(at, "/x", "one\r\n\ttwo\u202e\rthree\n")
	p := open(t, at.at.URL, "lock/x", desk, "light")
	const shown = `eve\u202e\x1b[2J\x0aadam\u200b\U000e0041`
	p.shows(".verdict", shown+" has held it for")
	p.to("locks")
	p.shows("#locks", shown)
	p.to("session/" + s.ID)
	p.shows("h1", shown)
	p.until(`document.title.startsWith(` + strconv.Quote(shown) + `)`)
	p.to("file/x")
	p.until(`document.querySelector('pre')?.textContent === ` + strconv.Quote("one\r\n\ttwo\\u202e\\x0dthree\n"))
	if n := eval[int](p, `[...document.querySelectorAll('body *')].filter(e => /[\u202e\u200b\x1b]/u.test((e.title ?? '') + (e.ariaLabel ?? ''))).length`); n > 0 {
		t.Errorf("%d titles have what is hidden", n)
	}
}
