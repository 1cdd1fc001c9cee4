// Command godriver is the driver of the Go client for the conformance suite.
// docs/writing-a-client.md has its protocol; this is the reference for drivers
// in other languages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves commands until the input ends.
func run(in io.Reader, out io.Writer) error {
	d := &driver{
		out: json.NewEncoder(out), cells: map[string]*client.Client{}, sessions: map[string]*client.Session{},
		holds: map[string]*client.Held{}, watches: map[string]context.CancelFunc{},
	}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		go d.serve(&c)
	}
}

// driver has the objects that commands have made, by name. An object is added
// before its command is answered.
type driver struct {
	mu       sync.Mutex // guards the following, and writing to out
	out      *json.Encoder
	cells    map[string]*client.Client
	sessions map[string]*client.Session
	holds    map[string]*client.Held
	watches  map[string]context.CancelFunc
}

// answer is the answer to a command.
type answer struct {
	ID    int    `json:"id"`
	OK    any    `json:"ok,omitempty"`
	Error *fault `json:"error,omitempty"`
}

type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// results are the fields of a successful answer or of a report.
type results map[string]any

// serve runs one command and writes its answer.
func (d *driver) serve(c *command) {
	ctx, cancel := c.bounded()
	defer cancel()
	a := answer{ID: c.ID}
	op, known := operations[c.Op]
	switch {
	case !known:
		a.Error = &fault{"unsupported", "the driver does not know " + c.Op}
	default:
		ok, err := op(d, ctx, c)
		if err != nil {
			a.Error = &fault{codeOf(err), err.Error()}
			break
		}
		if ok == nil {
			ok = results{}
		}
		a.OK = ok
	}
	d.write(a)
	if c.then != nil {
		c.then()
	}
}

func (d *driver) write(line any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.out.Encode(line); err != nil { // the suite has ended
		os.Exit(1)
	}
}

// add adds an object under a name.
func add[T any](d *driver, to map[string]T, name string, object T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	to[name] = object
}

// find returns the object with that name.
func find[T any](d *driver, in map[string]T, name string) (object T, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	object, known := in[name]
	if !known {
		return object, lockapi.Invalid("as", "there is no %q", name)
	}
	return object, nil
}

// codes are the protocol's names of errors, in the order in which they count.
var codes = []struct {
	is   error
	code string
}{
	{client.ErrOtherCell, "other_cell"},
	{client.ErrNotHeld, "not_held"},
	{client.ErrSessionExpired, "session_expired"},
	{client.ErrSessionClosed, "session_closed"},
	{client.ErrLockLost, "lock_lost"},
	{client.ErrUnlocked, "unlocked"},
	{client.ErrJeopardy, "jeopardy"},
	{client.ErrOutcomeUnknown, "outcome_unknown"},
	{client.ErrNoMaster, "no_master"},
}

func codeOf(err error) string {
	for _, row := range codes {
		if errors.Is(err, row.is) {
			return row.code
		}
	}
	var refused *lockapi.Error
	if errors.As(err, &refused) {
		return string(refused.Code)
	}
	return "internal"
}
