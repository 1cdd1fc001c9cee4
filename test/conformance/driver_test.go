package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds a step of a scenario. It is no expectation: it only ends a
// scenario that hangs.
const patience = time.Minute

// driver is one process of the driver of the client under test.
type driver struct {
	t       testing.TB
	command *exec.Cmd
	in      io.WriteCloser
	stderr  bytes.Buffer

	mu      sync.Mutex // guards the following
	serial  int
	waiting map[int]*pending
	reports []fields
	ended   error
	grown   chan struct{} // closed and replaced at each report, and at the end
}

// fields are the fields of a line of the protocol.
type fields map[string]any

func (f fields) text(name string) string {
	s, _ := f[name].(string)
	return s
}

func (f fields) number(name string) float64 {
	n, _ := f[name].(float64)
	return n
}

func (f fields) is(name string) bool {
	b, _ := f[name].(bool)
	return b
}

// pending is a command that is under way.
type pending struct {
	d    *driver
	op   string
	sent time.Time // before the command was sent
	done chan struct{}
	line struct {
		ID    int
		OK    fields
		Error *refusal
	}
}

// refusal is the error of a command.
type refusal struct {
	Code    string
	Message string
}

// startDriver starts a driver. It ends with the test.
func startDriver(t testing.TB, command []string) *driver {
	t.Helper()
	d := &driver{t: t, command: exec.Command(command[0], command[1:]...), waiting: map[int]*pending{}, grown: make(chan struct{})}
	d.command.Stderr = &d.stderr
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.command.WaitDelay = time.Second
	in, err := d.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.command.Start(); err != nil {
		t.Fatalf("the driver %q does not start: %v", command, err)
	}
	d.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		d.read(out)
	}()
	t.Cleanup(func() {
		d.resume()
		in.Close()
		select {
		case <-read:
		case <-time.After(10 * time.Second):
			t.Error("the driver does not end with its input")
		}
		_ = syscall.Kill(-d.command.Process.Pid, syscall.SIGKILL)
		_ = d.command.Wait()
		if t.Failed() {
			t.Logf("standard error of the driver:\n%s", d.stderr.String())
			d.mu.Lock()
			defer d.mu.Unlock()
			t.Logf("its reports: %v", d.reports)
		}
	})
	return d
}

// read reads lines until the output ends.
func (d *driver) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = d.receive(line)
		}
		if err != nil {
			d.mu.Lock()
			d.ended = err
			for _, p := range d.waiting {
				close(p.done)
			}
			d.waiting = nil
			d.grow()
			d.mu.Unlock()
			return
		}
	}
}

func (d *driver) receive(line []byte) error {
	var report fields
	if err := json.Unmarshal(line, &report); err != nil {
		return fmt.Errorf("the driver wrote %q: %w", line, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if report.text("report") != "" {
		d.reports = append(d.reports, report)
		d.grow()
		return nil
	}
	p := d.waiting[int(report.number("id"))]
	if p == nil {
		return fmt.Errorf("the driver answered a command that is not under way: %s", line)
	}
	delete(d.waiting, int(report.number("id")))
	defer close(p.done)
	return json.Unmarshal(line, &p.line)
}

// grow announces a report. mu is held.
func (d *driver) grow() {
	close(d.grown)
	d.grown = make(chan struct{})
}

// begin sends a command.
func (d *driver) begin(op string, args fields) *pending {
	d.t.Helper()
	d.mu.Lock()
	d.serial++
	p := &pending{d: d, op: op, done: make(chan struct{})}
	line := fields{"id": d.serial, "op": op}
	for name, value := range args {
		line[name] = value
	}
	if d.ended != nil {
		close(p.done)
	} else {
		d.waiting[d.serial] = p
	}
	d.mu.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		d.t.Fatal(err)
	}
	p.sent = time.Now()
	_, _ = d.in.Write(append(text, '\n')) // an error shows as the end of the output
	return p
}

// result waits for the answer to a command.
func (p *pending) result() (fields, *refusal) {
	p.d.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.d.t.Fatalf("%s: the driver does not answer", p.op)
	}
	if p.line.OK == nil && p.line.Error == nil {
		p.d.mu.Lock()
		defer p.d.mu.Unlock()
		p.d.t.Fatalf("%s: the driver ended: %v", p.op, p.d.ended)
	}
	if p.line.Error != nil && p.line.Error.Code == "unsupported" {
		p.d.lacks(p.op)
	}
	return p.line.OK, p.line.Error
}

// lacks skips a scenario that the client under test does not support.
func (d *driver) lacks(what string) {
	d.t.Helper()
	if os.Getenv(driverVariable) == "" {
		d.t.Fatalf("our driver does not support %s", what)
	}
	d.t.Skipf("the driver does not support %s", what)
}

// try waits for the answer to a command, in any goroutine. Without an answer it
// reports false.
func (p *pending) try() (fields, *refusal, bool) {
	select {
	case <-p.done:
		return p.line.OK, p.line.Error, p.line.OK != nil || p.line.Error != nil
	case <-time.After(patience):
		return nil, nil, false
	}
}

// isDone reports whether a command was answered.
func (p *pending) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ok requires success.
func (p *pending) ok() fields {
	p.d.t.Helper()
	out, err := p.result()
	if err != nil {
		p.d.t.Fatalf("%s: %s: %s", p.op, err.Code, err.Message)
	}
	return out
}

// fails requires an error with one of the codes.
func (p *pending) fails(codes ...string) {
	p.d.t.Helper()
	out, err := p.result()
	if err == nil {
		p.d.t.Fatalf("%s succeeded with %v; it must fail with %s", p.op, out, strings.Join(codes, " or "))
	}
	for _, code := range codes {
		if err.Code == code {
			return
		}
	}
	p.d.t.Fatalf("%s failed with %s (%s); it must fail with %s", p.op, err.Code, err.Message, strings.Join(codes, " or "))
}

// do makes a call and requires success.
func (d *driver) do(op string, args fields) fields {
	d.t.Helper()
	return d.begin(op, args).ok()
}

// find returns the reports of a kind about an object.
func (d *driver) find(report, object string) (out []fields) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.reports {
		if r.text("report") == report && (r.text("session") == object || r.text("hold") == object || r.text("watch") == object) {
			out = append(out, r)
		}
	}
	return out
}

// await waits for a report about an object.
func (d *driver) await(report, object string) fields {
	d.t.Helper()
	return d.awaitMany(report, object, 1)[0]
}

// awaitMany waits for n reports about an object.
func (d *driver) awaitMany(report, object string, n int) []fields {
	d.t.Helper()
	over := time.After(patience)
	for {
		d.mu.Lock()
		grown, ended := d.grown, d.ended
		d.mu.Unlock()
		found := d.find(report, object)
		if len(found) >= n {
			return found
		}
		if ended != nil {
			d.t.Fatalf("the driver ended before it reported %q of %s: %v", report, object, ended)
		}
		select {
		case <-grown:
		case <-over:
			d.t.Fatalf("the driver reports %q of %s %d times; it must be %d", report, object, len(found), n)
		}
	}
}

// pause stops the process at once, as SIGSTOP does; resume continues it.
func (d *driver) pause() {
	if err := syscall.Kill(-d.command.Process.Pid, syscall.SIGSTOP); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) resume() { _ = syscall.Kill(-d.command.Process.Pid, syscall.SIGCONT) }
