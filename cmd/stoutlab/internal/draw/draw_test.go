package draw_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/draw"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
)

func run(t *testing.T, o lab.Options) *lab.Result {
	t.Helper()
	o.Trace = draw.Room
	o.Drift = 0.01
	r, err := lab.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEverythingIsDrawn: every algorithm, whole and broken, gives well-formed
// SVG, text with lines of equal width, and a page.
func TestEverythingIsDrawn(t *testing.T) {
	for _, a := range lab.Algorithms() {
		for _, crash := range [][]string{nil, {"0@start"}, {"1@after-any"}} {
			r := run(t, lab.Options{Algorithm: a.Name, N: 6, Crash: crash, Latency: "1..3"})
			svg := string(draw.SVG(r))
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", a.Name, err)
				}
			}
			for _, bad := range []string{"%!", "NaN", "Inf"} {
				if strings.Contains(svg, bad) {
					t.Errorf("%s: %q in the drawing", a.Name, bad)
				}
			}
			if !strings.Contains(string(draw.Text(r)), " time ") {
				t.Errorf("%s: no text", a.Name)
			}
			if page := string(draw.HTML(r)); strings.Contains(page, "{{") || strings.Contains(page, "http://") && !strings.Contains(page, "www.w3.org") {
				t.Errorf("%s: the page is not whole", a.Name)
			}
		}
	}
}

// TestArrows: a message is one arrow, and a lost one is dashed.
func TestArrows(t *testing.T) {
	r := run(t, lab.Options{Algorithm: "bully", N: 5})
	svg := string(draw.SVG(r))
	if got := strings.Count(svg, ", sent at "); got != 19 {
		t.Errorf("%d arrows", got)
	}
	if got := strings.Count(svg, `stroke-dasharray="5 4"`); got != 4 { // to the failed coordinator
		t.Errorf("%d messages are lost", got)
	}
	if got := strings.Count(svg, "★3"); got != 4 {
		t.Errorf("%d believe in 3", got)
	}
}

// TestNothingIsHidden: no arrow covers another, and the legend fits.
func TestNothingIsHidden(t *testing.T) {
	paths := regexp.MustCompile(`d="(M[^"]*)"[^>]*><title>[^<]*, sent at `)
	width := regexp.MustCompile(`^<svg [^>]* width="(\d+)"`)
	legend := regexp.MustCompile(`<g transform="translate\((\d+) \d+\)">.*<text x="30" [^>]*>([^<]*)</text>`)
	for _, a := range lab.Algorithms() {
		svg := string(draw.SVG(run(t, lab.Options{Algorithm: a.Name, N: 4})))
		seen := map[string]bool{}
		for _, path := range paths.FindAllStringSubmatch(svg, -1) {
			if seen[path[1]] {
				t.Errorf("%s: two arrows at %s", a.Name, path[1])
			}
			seen[path[1]] = true
		}
		room, _ := strconv.Atoi(width.FindStringSubmatch(svg)[1])
		for _, item := range legend.FindAllStringSubmatch(svg, -1) {
			if at, _ := strconv.Atoi(item[1]); at+30+6*len(item[2]) > room {
				t.Errorf("%s: %q at %d of %d", a.Name, item[2], at, room)
			}
		}
	}
}

// TestEndless: a run that never ends is drawn from its beginning.
func TestEndless(t *testing.T) {
	o := lab.Options{Algorithm: "ring", Crash: []string{"4@after-election"}}
	if svg := string(draw.SVG(run(t, o))); !strings.Contains(svg, "the run never ends") {
		t.Error(svg)
	}
	o.Latency = "1..2" // random: no state repeats, and the run is long
	if svg := string(draw.SVG(run(t, o))); !strings.Contains(svg, "the rest is left out") || len(svg) > 2<<20 {
		t.Errorf("%d bytes", len(svg))
	}
}

// TestPageCarriesTheRun: the page contains the trace.
func TestPageCarriesTheRun(t *testing.T) {
	r := run(t, lab.Options{Algorithm: "ring", N: 4})
	page := draw.HTML(r)
	found := regexp.MustCompile(`(?s)<script id="run" type="application/json">(.*?)</script>`).FindSubmatch(page)
	if found == nil {
		t.Fatal("no run in the page")
	}
	var got struct {
		Title string
		Trace []struct{ What, Text string }
	}
	if err := json.Unmarshal(found[1], &got); err != nil {
		t.Fatal(err)
	}
	if got.Title != "ring, n = 4" || len(got.Trace) != len(r.Outcome.Trace) {
		t.Errorf("%q, %d records of %d", got.Title, len(got.Trace), len(r.Outcome.Trace))
	}
}

// chromium returns a headless browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("STOUT_TEST") == "" {
		t.Skip("it starts a browser: make lab")
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium: .ci/chromium installs Debian's")
	return ""
}

// inBrowser runs a script at the end of a run's page, and returns the title
// that it sets.
func inBrowser(t *testing.T, r *lab.Result, script string) string {
	t.Helper()
	browser := chromium(t)
	script = `<script>window.onerror = m => { document.title = "error: " + m; };` + script + `</script></html>`
	file := filepath.Join(t.TempDir(), "page.html")
	page := strings.Replace(string(draw.HTML(r)), "</html>", script, 1)
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+file)
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ran := errors.AsType[*exec.ExitError](err); ran {
			stderr = exit.Stderr
		}
		t.Fatalf("%s does not run here: %v\n%s", browser, err, stderr)
	}
	title := regexp.MustCompile(`<title>(.*?)</title>`).FindSubmatch(out)
	if title == nil {
		t.Fatalf("no title in\n%s", out)
	}
	return string(title[1])
}

// TestPageGoesBack steps through whole runs, forwards and backwards: the page
// after a given number of events is the same both ways.
func TestPageGoesBack(t *testing.T) {
	for _, o := range []lab.Options{
		{Algorithm: "maekawa-deadlock-free", N: 6},
		{Algorithm: "zookeeper", N: 4, Crash: []string{"3@after-commit"}},
		{Algorithm: "ring", N: 5, Crash: []string{"4@after-election"}}, // it never ends
	} {
		t.Run(o.Algorithm, func(t *testing.T) {
			r := run(t, o)
			title := inBrowser(t, r, `
	const see = () => $("stage").innerHTML + $("states").innerHTML + $("clock").textContent + document.querySelectorAll("li.now, li.later").length;
	const seen = [see()];
	let changes = 0, same = 0;
	while (at < trace.length) {
		$("next").click();
		seen.push(see());
		if (seen[at] !== seen[at - 1]) changes++;
	}
	for (; at > 0; ) {
		$("back").click();
		if (see() === seen[at]) same++;
	}
	document.title = [trace.length, changes, same].join(" ");`)
			if n := itoa(len(r.Outcome.Trace)); title != n+" "+n+" "+n || n == "0" {
				t.Errorf("title %q, want %s three times", title, n)
			}
		})
	}
}

// TestPageInBrowser steps through a run in a browser, forwards and backwards.
func TestPageInBrowser(t *testing.T) {
	r := run(t, lab.Options{Algorithm: "bully", N: 5, Crash: []string{"3@after-ok"}})
	// The script clicks like a person, and records the visible state.
	title := inBrowser(t, r, `
	const log = [], see = () => log.push([$("clock").textContent, $("states").children.length, document.querySelectorAll(".message").length,
		document.querySelectorAll(".process.dead").length, document.querySelectorAll("li.now").length].join("|"));
	see(); $("next").click(); $("next").click(); see(); $("back").click(); see(); $("last").click(); see(); $("first").click(); see();
	document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true})); see();
	$("events").children[20].click(); see();
	document.title = "seen: " + log.join("; ");`)
	if !strings.HasPrefix(title, "seen: ") {
		t.Fatalf("title %q", title)
	}
	seen := strings.Split(strings.TrimPrefix(title, "seen: "), "; ")
	last := len(r.Outcome.Trace)
	for i, want := range []string{
		`^time 0, event 0 of \d+, 0 in flight\|5\|0\|0\|0$`,
		`^time 0, event 2 of \d+, 0 in flight\|5\|0\|1\|1$`, // the old coordinator is down
		`^time 0, event 1 of \d+, 0 in flight\|5\|0\|1\|1$`,
		`^time \d+, event ` + itoa(last) + ` of \d+, 0 in flight\|5\|0\|2\|1$`,
		`^time 0, event 0 of `,
		`^time 0, event 1 of `,
		`^time \d+, event 21 of \d+, [1-9]\d* in flight\|5\|[1-9]`,
	} {
		if i >= len(seen) || !regexp.MustCompile(want).MatchString(seen[i]) {
			t.Errorf("step %d: %q, want %s", i, seen, want)
		}
	}
}

func itoa(n int) string {
	text, _ := json.Marshal(n)
	return string(text)
}
