package ui

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

func TestHuman(t *testing.T) {
	tests := map[time.Duration]string{
		0:                         "0ms",
		999 * time.Microsecond:    "0ms",
		120 * time.Millisecond:    "120ms",
		time.Second:               "1s",
		1299 * time.Millisecond:   "1.2s",
		9999 * time.Millisecond:   "9.9s",
		59 * time.Second:          "59s",
		time.Minute:               "1m00s",
		200 * time.Second:         "3m20s",
		time.Hour + 5*time.Minute: "1h05m",
		51 * time.Hour:            "2d3h",
		-1500 * time.Millisecond:  "-1.5s",
	}
	for d, want := range tests {
		if got := format.Human(d); got != want {
			t.Errorf("format.Human(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	tests := map[string]string{
		"":                    "-",
		"billing@host7":       "billing@host7",
		"größe \"x\"":         "größe \"x\"",
		"red \x1b[31m":        `red \x1b[31m`,
		"two\nlines":          `two\nlines`,
		"bad \xff":            `bad \xff`,
		"turned \u202e round": `turned \u202e round`,
	}
	for in, want := range tests {
		if got := format.Clean(in); got != want {
			t.Errorf("format.Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"does not answer ": "does not|answer", "a b c  d e f g": "a b c d e|f g",
		"a wordofmorethanten b": "a|wordofmorethanten|b", "": "",
	} {
		if got := strings.Join(Wrap(text, 10), "|"); got != want {
			t.Errorf("wrap(%q) is %q, want %q", text, got, want)
		}
	}
}

// tableLines returns a table on a terminal of a width.
func tableLines(width int, columns []Column, rows [][]string) []string {
	var out bytes.Buffer
	u := &UI{Out: NewStream(&out, termenv.Ascii), Width: width}
	u.Table(columns, rows)
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestTableDropsColumns(t *testing.T) {
	columns := []Column{Left("ID"), Left("PROMISE").Drop(2), Right("CONTACT").Drop(1), Left("ADDRESS")}
	rows := [][]string{{"r1", "r2 1.8s", "12ms", "127.0.0.1:7101"}}
	const all, without, least = "r1  r2 1.8s     12ms  127.0.0.1:7101", "r1     12ms  127.0.0.1:7101", "r1  127.0.0.1:7101"
	for width, want := range map[int]string{0: all, 80: all, 36: all, 35: without, 27: without, 26: least, 5: least} {
		if got := tableLines(width, columns, rows); len(got) != 2 || got[1] != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// A long path is shortened in its middle, and leaves the other rows alone.
func TestTableShortensPaths(t *testing.T) {
	long := "/" + strings.Repeat("directory/", 12) + "lock"
	rows := [][]string{{"/short", "held", "id"}, {long, "held", "id"}}
	columns := []Column{Path(), Left("STATE"), Left("SESSION").Drop(1)}
	for width, want := range map[int]string{
		200: long + "  held   id", 80: "/directory/directory/dir…ory/directory/directory/directory/directory/lock  held",
		10: "/direc…irectory/lock  held",
	} {
		got := tableLines(width, columns, rows)
		if words := strings.Join(strings.Fields(got[1]), " "); !strings.HasPrefix(words, "/short held") || got[2] != want {
			t.Errorf("%d columns: %q", width, got)
		}
	}
}

func TestByteSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1 << 10: "1.0 KiB", 3 << 9: "1.5 KiB",
		1 << 20: "1.0 MiB", 512 << 20: "512.0 MiB", 5 << 30: "5.0 GiB", 1 << 42: "4096.0 GiB"} {
		if got := format.Bytes(n); got != want {
			t.Errorf("%d bytes read %q, want %q", n, got, want)
		}
	}
}

// Notices to a blocked standard error are limited, and lost ones are counted
// (package nonblock has the rest).
func TestNoticesNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread, to := io.Pipe()
		began := time.Now()
		n := NewNotices(to)
		fmt.Fprintln(n, "first")
		synctest.Wait() // it is under way, and in the queue no more
		for range mostNotices + 7 {
			fmt.Fprintln(n, "next")
		}
		Settle(n)
		if took := time.Since(began); took != orderTime {
			t.Errorf("an answer waited for %v", took)
		}
		var written bytes.Buffer
		go func() { _, _ = io.Copy(&written, unread) }()
		synctest.Wait()
		to.Close()
		synctest.Wait()
		if text := written.String(); strings.Count(text, "\n") != 1+mostNotices+1 || !strings.HasSuffix(text, "next\nstout: 7 notices dropped: standard error was blocked\n") {
			t.Errorf("written was %q", text)
		}
	})
}

// A progress line fits into a terminal that was made narrower, so that the next
// one erases all of it.
func TestProgressOnAResizedTerminal(t *testing.T) {
	var shown bytes.Buffer
	width := 60
	u := &UI{Live: true, Err: NewStream(&shown, termenv.Ascii)}
	u.measure = func() { u.ErrWidth = width }
	u.Progress("a", strings.Repeat("x", 100))
	width = 30
	u.Progress("a", strings.Repeat("x", 100))
	lines := strings.Split(shown.String(), "\r\x1b[K")
	if len(lines) != 3 || len(lines[1]) <= 30 || len(lines[2]) > 30+len("…") {
		t.Errorf("%q", lines)
	}
}
