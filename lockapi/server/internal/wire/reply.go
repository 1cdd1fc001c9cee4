package wire

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A reply whose body is longer than mostJoined is written in two pieces rather than
// copied into one. mostKept and mostFields bound what is kept for the next reply,
// and mostAtOnce what has WriteTimeout for itself.
const (
	mostJoined = 16 << 10
	mostKept   = 64 << 10
	mostFields = 64
	mostAtOnce = 64 << 10
)

// reply is a http.ResponseWriter. It keeps the whole reply until it is sent.
type reply struct {
	asked  http.Header // of the request
	header http.Header
	status int
	body   bytes.Buffer
	head   bytes.Buffer
	close  bool // it is the last of its connection
}

var replies = sync.Pool{New: func() any { return &reply{asked: http.Header{}, header: http.Header{}} }}

func newReply() *reply { return replies.Get().(*reply) }

func (w *reply) free() {
	if w.body.Cap() > mostKept || len(w.asked) > mostFields {
		return // a map never gets smaller
	}
	clear(w.asked)
	clear(w.header)
	w.body.Reset()
	w.head.Reset()
	w.status, w.close = 0, false
	replies.Put(w)
}

func (w *reply) Header() http.Header { return w.header }

func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *reply) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// send writes the reply to r.
func (c *conn) send(w *reply, r *http.Request) error {
	w.WriteHeader(http.StatusOK)
	body := w.body.Bytes()
	h := w.header
	if bodiless := w.status == http.StatusNoContent || w.status == http.StatusNotModified; bodiless {
		body = nil
	} else if h["Content-Length"] == nil {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if r.Method == http.MethodHead {
		body = nil
	}
	if len(h["Connection"]) > 0 {
		w.close = w.close || h.Get("Connection") == "close"
	}
	version := "HTTP/1.1 "
	switch {
	case w.close:
		h["Connection"] = closes
	case r.ProtoMinor == 0:
		h["Connection"] = keeps
	}
	if r.ProtoMinor == 0 {
		version = "HTTP/1.0 "
	}
	if h["Date"] == nil {
		h["Date"] = date()
	}
	w.head.WriteString(version)
	w.head.WriteString(strconv.Itoa(w.status))
	w.head.WriteByte(' ')
	w.head.WriteString(http.StatusText(w.status))
	w.head.WriteString("\r\n")
	if err := h.Write(&w.head); err != nil {
		return err
	}
	w.head.WriteString("\r\n")
	if len(body) > mostJoined {
		if err := c.write(w.head.Bytes()); err != nil {
			return err
		}
		return c.write(body)
	}
	w.head.Write(body)
	return c.write(w.head.Bytes())
}

// Values of a header that many replies share. Nobody changes them.
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

// write sends b: at once what the system takes, the rest with a deadline for each
// piece.
func (c *conn) write(b []byte) error {
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
	defer c.server.unread.waits(c, cap(b))() // all of it stays in memory
	// A deadline that is over would fail the next reply before it is tried.
	defer c.net.SetWriteDeadline(time.Time{})
	for len(c.out) > 0 {
		if err := c.net.SetWriteDeadline(time.Now().Add(c.server.WriteTimeout)); err != nil {
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
