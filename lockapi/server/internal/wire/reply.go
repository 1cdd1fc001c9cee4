package wire

import (
	"bytes"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// A reply with a body longer than mostJoined is written in two pieces instead
// of being copied into one. mostKept and mostFields bound what is kept for the
// next reply. mostAtOnce is the piece for which WriteTimeout applies.
const (
	mostJoined = 16 << 10
	mostKept   = 64 << 10
	mostFields = 64
	mostAtOnce = 64 << 10
)

// reply is a http.ResponseWriter. It keeps the whole reply until the handler
// has returned, unless the handler flushes; see stream.go.
type reply struct {
	asked  http.Header // of the request, unless they are many: a map never shrinks
	header http.Header
	status int
	body   bytes.Buffer
	head   bytes.Buffer
	sorted []headerField // room to sort the headers
	close  bool          // it is the connection's last reply

	conn    *conn
	bare    bool // the request's method is HEAD
	minor   int  // version of its protocol
	framing framing
	left    int64 // bytes that the handler still has to write, if counted
	err     error // why no more can be sent
}

var replies = sync.Pool{New: func() any { return &reply{asked: http.Header{}, header: http.Header{}} }}

func newReply() *reply { return replies.Get().(*reply) }

func (w *reply) free() {
	if w.body.Cap() > mostKept {
		return
	}
	clear(w.asked)
	clear(w.header)
	w.body.Reset()
	w.head.Reset()
	w.status, w.close = 0, false
	w.conn = nil
	w.framing, w.left, w.err = whole, 0, nil
	replies.Put(w)
}

// lend leaves the map of the request's headers to the request if it is large.
// The request may drop it.
func (w *reply) lend() {
	if len(w.asked) > mostFields {
		w.asked = http.Header{}
	}
}

func (w *reply) Header() http.Header { return w.header }

func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *reply) Write(b []byte) (int, error) {
	if w.framing != whole {
		return w.stream(b)
	}
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// hasNoBody reports whether a reply of the status ends with its headers.
func hasNoBody(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// send writes the reply, or the rest of it.
func (c *conn) send(w *reply) error {
	if w.framing != whole {
		return w.finish()
	}
	w.WriteHeader(http.StatusOK)
	body := w.body.Bytes()
	if hasNoBody(w.status) {
		body = nil
	} else if w.header["Content-Length"] == nil {
		w.header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if w.bare {
		body = nil
	}
	if err := w.lead(); err != nil {
		return err
	}
	return c.writeBoth(&w.head, body)
}

// lead writes the status line and the headers into head.
func (w *reply) lead() error {
	h := w.header
	if len(h["Connection"]) > 0 {
		w.close = w.close || h.Get("Connection") == "close"
	}
	version := "HTTP/1.1 "
	switch {
	case w.close:
		h["Connection"] = closes
	case w.minor == 0:
		h["Connection"] = keeps
	}
	if w.minor == 0 {
		version = "HTTP/1.0 "
	}
	if h["Date"] == nil {
		h["Date"] = date()
	}
	w.head.WriteString(version)
	w.head.Write(strconv.AppendInt(w.head.AvailableBuffer(), int64(w.status), 10))
	w.head.WriteByte(' ')
	w.head.WriteString(http.StatusText(w.status))
	w.head.WriteString("\r\n")
	if err := w.fields(); err != nil {
		return err
	}
	w.head.WriteString("\r\n")
	return nil
}

type headerField struct {
	name   string
	values []string
}

// fields writes the headers in order, like http.Header.Write but in a third of
// the time. It calls that function if a header needs cleaning, which is not the
// case in ordinary replies.
func (w *reply) fields() error {
	sorted := w.sorted[:0]
	for name, values := range w.header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, needsCleaning) {
			return w.header.Write(&w.head)
		}
		sorted = append(sorted, headerField{})
		i := len(sorted) - 1
		for ; i > 0 && sorted[i-1].name > name; i-- {
			sorted[i] = sorted[i-1]
		}
		sorted[i] = headerField{name, values}
	}
	head := w.head.AvailableBuffer()
	for _, f := range sorted {
		for _, value := range f.values {
			head = append(append(append(append(head, f.name...), ": "...), value...), "\r\n"...)
		}
	}
	w.head.Write(head)
	clear(sorted)
	w.sorted = sorted[:0]
	return nil
}

// needsCleaning reports whether a header's value contains a line break or has
// white space around it.
func needsCleaning(v string) bool {
	return v != "" && (v[0] <= ' ' || v[len(v)-1] <= ' ' || strings.IndexByte(v, '\n') >= 0 || strings.IndexByte(v, '\r') >= 0)
}

// writeBoth sends head and body, in one write if they are short.
func (c *conn) writeBoth(head *bytes.Buffer, body []byte) error {
	if len(body) > mostJoined {
		if err := c.write(head.Bytes()); err != nil {
			return err
		}
		return c.write(body)
	}
	head.Write(body)
	return c.write(head.Bytes())
}

// Header values shared by many replies. They are never modified.
var (
	closes = []string{"close"}
	keeps  = []string{"keep-alive"}
	today  atomic.Pointer[stamp]
)

// stamp is the Date header of one second.
type stamp struct {
	second int64
	value  []string
}

func date() []string {
	now := time.Now()
	s := today.Load()
	if s == nil || s.second != now.Unix() {
		s = &stamp{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		today.Store(s)
	}
	return s.value
}

// write sends b: as much as the system accepts at once, then the rest with a
// deadline for each piece.
func (c *conn) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.out = b
	defer func() { c.out = nil }()
	if c.raw != nil {
		if err := c.raw.Write(c.tryWrite); err != nil {
			return err
		}
	}
	if len(c.out) == 0 {
		return nil
	}
	slow, most := share{conn: c}, c.server.MaxUnreadBytes
	if most > 0 {
		most = max(most, cap(b)) // a single reply may be of any length
	}
	c.server.unread.holds(&slow, cap(b), most, true) // all of it stays in memory
	defer c.server.unread.done(&slow)
	// An expired deadline would fail the next reply before it is tried.
	defer c.net.SetWriteDeadline(time.Time{})
	silent := c.server.Silent
	if silent == nil || !c.replies {
		silent = func(net.Conn, time.Time) {}
	}
	defer silent(c.under, time.Time{})
	for len(c.out) > 0 {
		now := time.Now()
		silent(c.under, now)
		if err := c.net.SetWriteDeadline(now.Add(c.server.WriteTimeout)); err != nil {
			return err
		}
		n, err := c.net.Write(c.out[:min(len(c.out), mostAtOnce)])
		if err != nil {
			return err
		}
		c.out = c.out[n:]
	}
	return nil
}
