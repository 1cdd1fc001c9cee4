package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
)

// disk is a sink that can be full, or hang.
type disk struct {
	mu      sync.Mutex
	got     bytes.Buffer
	room    int // bytes until it is full; negative for no limit
	hangs   chan struct{}
	writes  int
	reopens int
	closed  bool
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	hangs := d.hangs
	d.writes++
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room >= 0 && len(p) > d.room {
		n, _ := d.got.Write(p[:d.room])
		d.room = 0
		return n, syscall.ENOSPC
	}
	if d.room >= 0 {
		d.room -= len(p)
	}
	return d.got.Write(p)
}

// hang makes writes wait until hangs is closed.
func (d *disk) hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hangs = make(chan struct{})
}

func (d *disk) Reopen() error   { d.reopens++; return nil }
func (d *disk) EndsLines() bool { return false }
func (d *disk) Close() error    { d.closed = true; return nil }

func (d *disk) set(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
}

// lines returns the lines on the disk; a torn line has only the field "torn".
func (d *disk) lines(t *testing.T) (out []map[string]any) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range strings.Split(strings.TrimSuffix(d.got.String(), "\n"), "\n") {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			line = map[string]any{"torn": text}
		}
		out = append(out, line)
	}
	return out
}

// summary returns the event or the principal of each line.
func (d *disk) summary(t *testing.T) string {
	var out []string
	for _, l := range d.lines(t) {
		switch {
		case l["torn"] != nil:
			out = append(out, "torn")
		case l["count"] != nil:
			out = append(out, fmt.Sprintf("%v %v%v", l["event"], l["remote"], l["count"]))
		case l["event"] != nil:
			out = append(out, l["event"].(string))
		default:
			out = append(out, l["principal"].(string))
		}
	}
	return strings.Join(out, " ")
}

func by(name string) Record { return Record{Principal: name} }

// begin returns a log on a disk, in a bubble, and the messages about the log. The
// log is closed at the end of the test.
func begin(t *testing.T, d *disk, required bool) (*Log, *testrun.Log) {
	text := new(testrun.Log)
	l := newLog(d, required, zerolog.New(text))
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil || !d.closed {
			t.Errorf("closed %t, %v", d.closed, err)
		}
	})
	synctest.Wait()
	return l, text
}

// A line has exactly the fields of the contract.
func TestFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, _ := begin(t, d, false)
		l.Note(Record{Principal: "user:a", How: "token", Remote: "[::1]:5", Method: "PUT", Route: "/v1/files/{path}", Path: "/a",
			Status: 403, Code: "permission_denied", RequestID: "R", Epoch: 3, Revision: 9})
		synctest.Wait()
		const want = `{"time":"2000-01-01T00:00:00.000000Z","principal":"user:a","how":"token","remote":"[::1]:5","method":"PUT",` +
			`"route":"/v1/files/{path}","path":"/a","status":403,"code":"permission_denied","request_id":"R","epoch":3,"revision":9}` + "\n"
		if got := d.got.String(); !strings.HasSuffix(got, "\n"+want) {
			t.Errorf("%s; want %s", got, want)
		}
	})
}

// Texts that callers choose cannot add a line, and are harmless to a terminal.
func TestTextsAreHarmless(t *testing.T) {
	for _, text := range []string{"/a\nb", "/\x1b[2J", "/\u009b2J", "/\u202eb", "/\"\\", "/\U000e0001", "/é😀", "/\xff", "/\u2028", "/\u200b", "/\x7f"} {
		line := string(format(&Record{Path: text, Principal: text, Method: text}))
		var got struct{ Path string }
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Path != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("%q: %v, %q in %s", text, err, got.Path, line)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2028 || r == 0x200b || r == 0xe0001 || r == 0xfffd {
				t.Errorf("%q: %q has %q", text, line, r)
			}
		}
	}
}

// A full disk loses lines, which the log reports once a minute. Once there is
// space again, the log has a line with the number of lost lines.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, text := begin(t, d, false)
		d.set(10)
		for range 100 {
			l.Note(by("lost"))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Minute)
		if n := strings.Count(text.String(), "cannot be written"); n < 2 || n > 5 {
			t.Errorf("reported %d times in three minutes:\n%s", n, text)
		}
		d.mu.Lock()
		if d.writes > 200 {
			t.Errorf("%d writes to a disk that was full for three minutes", d.writes)
		}
		d.mu.Unlock()
		if c := l.Counts(); c.Lost != 100 || !c.Failing || l.Err() == nil {
			t.Errorf("%+v %v", c, l.Err())
		}
		d.set(-1)
		time.Sleep(2 * retryEvery)
		l.Note(by("again"))
		synctest.Wait()
		if got := d.summary(t); got != "audit_started torn audit_lost 100 again" {
			t.Error(got)
		}
		if c := l.Counts(); c.Failing || c.Written != 2 || !strings.Contains(text.String(), "written again") {
			t.Errorf("%+v\n%s", c, text)
		}
	})
}

// Demand returns an error unless the disk has written the caller's line.
func TestDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, text := begin(t, d, true)
		if err := l.Demand(t.Context(), by("a")); err != nil || d.summary(t) != "audit_started a" {
			t.Fatalf("%v: %s", err, d.summary(t))
		}
		d.set(0)
		for range 3 {
			began := time.Now()
			if err := l.Demand(t.Context(), by("b")); !errors.Is(err, syscall.ENOSPC) || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		if !strings.Contains(text.String(), "changes are refused (audit-required)") {
			t.Error(text)
		}
		d.set(-1)
		time.Sleep(2 * retryEvery)
		if err := l.Demand(t.Context(), by("c")); err != nil || d.summary(t) != "audit_started a audit_lost 1 c" {
			t.Errorf("%v: %s", err, d.summary(t)) // two were refused without a write
		}
	})
}

// When a disk hangs, Demand waits for its patience once, and then fails at once.
// Note never waits.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, _ := begin(t, d, true)
		d.hang()
		began := time.Now()
		for range 3 * mostQueued {
			l.Note(by("a"))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("noting took %v", took)
		}
		if lost := l.Counts().Lost; lost < mostQueued {
			t.Errorf("%d lost", lost)
		}
		for i, want := range []time.Duration{patience, 0, 0} {
			began := time.Now()
			if err := l.Demand(t.Context(), by("b")); err == nil || time.Since(began) != want {
				t.Errorf("%d: %v after %v", i, err, time.Since(began))
			}
		}
		close(d.hangs)
		time.Sleep(2 * retryEvery)
		if err := l.Demand(t.Context(), by("c")); err != nil || !strings.HasSuffix(d.summary(t), " c") {
			t.Errorf("%v", err)
		}
	})
}

// A disk that hangs is reported also if changes do not need their lines, and the
// file later has the number of the lost ones.
func TestHangingDiskThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, log := begin(t, d, false)
		d.hang()
		for range 3 * mostQueued {
			l.Note(by("a"))
		}
		time.Sleep(3 * time.Second)
		l.Note(by("a"))
		if c := l.Counts(); !c.Failing || c.Lost < mostQueued || strings.Count(log.String(), "cannot be written") != 1 {
			t.Errorf("%+v: %s", c, log)
		}
		lost := l.Counts().Lost
		close(d.hangs)
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		told := uint64(0)
		for _, l := range d.lines(t) {
			if l["event"] == Lost {
				told += uint64(l["count"].(float64))
			}
		}
		if c := l.Counts(); c.Failing || told != lost {
			t.Errorf("%+v: %d lines are missing, the file has %d of them", c, lost, told)
		}
	})
}

// After a line that was written too late, later lines are accepted again.
func TestLateLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, _ := begin(t, d, true)
		for range 20 { // the disk answers just when the patience is over
			d.hang()
			time.AfterFunc(patience, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				close(d.hangs)
				d.hangs = nil
			})
			_ = l.Demand(t.Context(), by("a"))
			time.Sleep(2 * retryEvery)
			if err := l.Demand(t.Context(), by("b")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Close writes the queued lines. If the disk hangs, it gives up.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := newLog(d, false, zerolog.Nop())
		for i := range 200 {
			l.Note(by(fmt.Sprint("user:", i)))
		}
		if err := l.Close(t.Context()); err != nil || !strings.HasSuffix(d.summary(t), " user:198 user:199") || len(d.lines(t)) != 201 {
			t.Errorf("%v: %s", err, d.summary(t))
		}
		if err := l.Demand(t.Context(), by("late")); err == nil {
			t.Error("a closed log accepts a line")
		}

		stuck := &disk{room: -1, hangs: make(chan struct{})}
		l = newLog(stuck, false, zerolog.Nop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(stuck.hangs)
	})
}

// A nil log accepts all calls and does nothing.
func TestNone(t *testing.T) {
	var l *Log
	l.Note(by("a"))
	l.Reopen()
	if l.Denied("a", "") || l.Required() || l.Err() != nil || l.Close(t.Context()) != nil {
		t.Error("a nil log does something")
	}
}

// A few denials per address have lines; the log counts the rest. Lines and memory
// do not grow with the attack.
func TestDenialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l, _ := begin(t, d, false)
		lines := 0
		deny := func(remote string, n int) {
			for range n {
				if l.Denied(remote, "") {
					lines++
				}
			}
		}
		deny("10.0.0.1:1", 25)
		deny("10.0.0.1:2", 5) // the same host
		deny("10.0.0.2:1", 10)
		deny("[2001:db8::1]:1", 6)
		deny("[2001:db8::ffff]:1", 6) // the same network
		deny("", 11)                  // from another member, which sent no address
		if lines != 4*denialsOfOne {
			t.Errorf("%d lines", lines)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := d.summary(t); got != "audit_started denials_suppressed 10.0.0.120 denials_suppressed 2001:db8::/642 denials_suppressed 1" {
			t.Error(got)
		}
		deny("10.0.0.1:1", 1)
		if lines != 4*denialsOfOne+1 {
			t.Errorf("%d lines in the next second", lines)
		}

		time.Sleep(2 * time.Second)
		synctest.Wait()
		lines = 0
		for i := range 100_000 {
			deny(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), 1)
		}
		l.denials.mu.Lock()
		if lines != denialsOfAll || len(l.denials.of) > mostCounted+1 {
			t.Errorf("%d lines for 100000 addresses; %d are remembered", lines, len(l.denials.of))
		}
		l.denials.mu.Unlock()
		before := len(d.lines(t))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var sum float64
		all := d.lines(t)[before:]
		for _, line := range all {
			sum += line["count"].(float64)
		}
		if sum != 100_000-denialsOfAll || len(all) > denialsOfAll+1 {
			t.Errorf("%v are counted in %d lines", sum, len(all))
		}
	})
}

// Denials of unknown callers use up no line of a known caller, whether they come from
// the same address or from thousands.
func TestDenialsOfStrangersHideNoKnownCaller(t *testing.T) {
	const here = "10.0.0.1:1"
	for name, strangers := range map[string]func(l *Log){
		"at the same address": func(l *Log) {
			for range 10_000 {
				l.Denied(here, "")
			}
		},
		"at many addresses": func(l *Log) {
			for i := range 3 * mostCounted {
				l.Denied(fmt.Sprintf("10.1.%d.%d:1", i>>8, i&255), "")
			}
		},
		"of another caller there": func(l *Log) {
			for range 10_000 {
				l.Denied(here, "user:b")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{room: -1}
				l, _ := begin(t, d, false)
				strangers(l)
				for i := range denialsOfOne + 3 {
					if has := l.Denied(here, "user:a"); has != (i < denialsOfOne) {
						t.Errorf("denial %d has a line: %v", i, has)
					}
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for _, line := range d.lines(t) {
					if line["principal"] == "user:a" && line["count"] != 3.0 {
						t.Errorf("suppressed: %v", line)
					}
				}
			})
		})
	}
}
