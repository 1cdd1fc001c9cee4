package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/decode"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// mostIdle is after how many bookmarks without an event a replica is asked
	// whether it is ready: a replica that is cut off from the others gets no
	// events.
	mostIdle = 3
	// pollTime is how long a call for events waits.
	pollTime = 20 * time.Second
)

// stream delivers the events of one stream until it ends.
func (w *watch) stream(ctx context.Context, change func()) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	q := &call.Call{Method: http.MethodGet, Path: lockapi.RouteEvents, Query: w.filter.query(w.after).Encode(), Any: true, StreamType: lockapi.TypeEventStream}
	switch err := w.c.calls.Attempt(ctx, &call.Route{To: w.at}, q); {
	case err == nil:
		defer q.Stream.Body.Close()
		w.to.opened(change)
		w.to.accepted()
		return w.read(ctx, cut, q.Stream.Body)
	case q.Stream != nil:
		w.polls = pollsLong
		return errNoSSE
	default:
		if errors.Is(err, call.ErrSilent) {
			if w.mute++; w.mute >= mostMute {
				w.polls, w.mute = pollsLong, 0
			}
		}
		return err
	}
}

// read delivers the messages of a stream, and cuts it when it is silent. The
// silence timer is stopped while the caller processes an event.
func (w *watch) read(ctx context.Context, cut context.CancelCauseFunc, body io.Reader) error {
	silence := time.AfterFunc(call.StreamTimeout, func() { cut(call.ErrSilent) })
	defer silence.Stop()
	in, idle := newMessages(body), 0
	for {
		silence.Reset(call.StreamTimeout)
		m, err := in.next()
		silence.Stop()
		if err != nil {
			return &call.AttemptError{URL: w.at.URL, Sent: true, Err: errors.Join(err, context.Cause(ctx))}
		}
		idle++
		if m.event != lockapi.StreamBookmark {
			idle = 0
		}
		if err := w.consume(&m); err != nil {
			return err
		}
		if idle == mostIdle {
			if err := w.checkReady(ctx); err != nil {
				return err
			}
			idle = 0
		}
	}
}

// checkReady returns an error if the replica reports that it is not ready. A
// replica that cannot report counts as ready.
func (w *watch) checkReady(ctx context.Context) error {
	err := w.c.calls.Attempt(ctx, &call.Route{To: w.at}, &call.Call{Method: http.MethodGet, Path: lockapi.RouteReady, Any: true})
	if refused, ok := err.(*lockapi.Error); ok && refused.Code.Status() == http.StatusServiceUnavailable {
		return errors.Join(errCutOff, err)
	}
	return nil
}

// consume processes one message of a stream.
func (w *watch) consume(m *message) error {
	switch m.event {
	case lockapi.StreamBookmark:
		var b lockapi.Bookmark
		if err := w.decode(m, &b, &b.Revision); err != nil {
			return err
		}
		if err := w.c.calls.CheckCell(w.at.URL, b.Cell); err != nil {
			return err
		}
		return w.mark(b.Revision)
	case lockapi.StreamCompacted:
		var at lockapi.Compacted
		if err := w.decode(m, &at, &at.Revision); err != nil {
			return err
		}
		return &lockapi.Error{Code: lockapi.CodeCompacted, Compacted: at}
	case lockapi.StreamDenied:
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "%s reports that the caller may no longer watch", w.at.URL)
	}
	var e lockapi.CellEvent
	if err := w.decode(m, &e, &e.Revision); err != nil {
		return err
	}
	if string(e.Type) != m.event {
		return w.lie("%q with the type %q", lockapi.Clip(m.event), lockapi.Clip(string(e.Type)))
	}
	return w.deliver(&e)
}

// mark records a replica's report that it has sent all events up to a revision.
func (w *watch) mark(revision uint64) error {
	if revision < w.after || revision > lockapi.MaxToken {
		return w.lie("a bookmark with revision %d after revision %d", revision, w.after)
	}
	w.reach(revision)
	w.to.reached(revision)
	w.c.calls.KeepLooking()
	return nil
}

// decode decodes a message's JSON into out, and checks that its revision equals
// the message's id.
func (w *watch) decode(m *message, out any, revision *uint64) error {
	if err := decode.JSON(m.data, out); err != nil {
		return w.lie("unexpected JSON: %v", err)
	}
	if m.id != strconv.FormatUint(*revision, 10) {
		return w.lie("revision %d under the id %q", *revision, lockapi.Clip(m.id))
	}
	return nil
}

// poll delivers the events of calls that wait, or of calls for old events, which
// do not.
func (w *watch) poll(ctx context.Context, change func()) error {
	wait := pollTime
	if w.present != nil {
		wait = 0
	}
	w.to.opened(change)
	query := w.filter.query(w.after)
	query.Set("wait_ms", strconv.FormatInt(wait.Milliseconds(), 10))
	query.Set("limit", strconv.Itoa(lockapi.MaxListLimit))
	for {
		var out lockapi.EventList
		q := call.Call{Method: http.MethodGet, Path: lockapi.RouteEvents, Query: query.Encode(), Any: true, Stale: true, Wait: wait, Out: &out}
		before, began := w.after, w.c.clock.now()
		if err := w.c.calls.Attempt(ctx, &call.Route{To: w.at}, &q); err != nil {
			return err
		}
		w.to.accepted()
		for i := range out.Events {
			if err := w.deliver(&out.Events[i]); err != nil {
				return err
			}
		}
		if err := w.mark(out.Revision); err != nil {
			return err
		}
		if w.present != nil && len(out.Events) < mostQueued && w.present() {
			return errCaughtUp
		}
		if w.after > before {
			w.pause.Reset(0)
		} else if err := w.checkReady(ctx); err != nil {
			return err
		}
		if w.after == before && w.c.clock.now()-began < pollTime/2 {
			timing.Sleep(ctx, w.pause.Next()) // the replica did not wait as requested
		}
		query.Set("after", strconv.FormatUint(w.after, 10))
	}
}

// mostMessage bounds a server-sent event: JSON may take six bytes for one of a
// file's content.
const mostMessage = 4 << 20

var errLongMessage = errors.New("the stream has a message that is too long to be an event")

// message is one server-sent event.
type message struct {
	id    string
	event string
	data  []byte // valid until the next one is read
}

// messages reads a stream of server-sent events.
type messages struct {
	lines *bufio.Scanner
	data  []byte
}

func newMessages(r io.Reader) *messages {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostMessage)
	return &messages{lines: lines}
}

// next returns the next message with data. It drops a message that is
// incomplete at the end of the stream.
func (m *messages) next() (out message, err error) {
	m.data = m.data[:0]
	for m.lines.Scan() {
		if len(m.lines.Bytes()) == 0 {
			if len(m.data) > 0 {
				out.data = m.data[:len(m.data)-1]
				return out, nil
			}
			out = message{}
			continue
		}
		name, value, _ := bytes.Cut(m.lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			out.id = string(value)
		case "event":
			out.event = string(value)
		case "data":
			if len(m.data)+len(value) > mostMessage {
				return out, errLongMessage
			}
			m.data = append(append(m.data, value...), '\n')
		}
	}
	switch err := m.lines.Err(); err {
	case nil:
		return out, io.EOF
	case bufio.ErrTooLong:
		return out, errLongMessage
	default:
		return out, err
	}
}
