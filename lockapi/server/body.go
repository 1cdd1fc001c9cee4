package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// readBody returns the whole body, up to most bytes. If it did not arrive
// completely, this is the connection's last request.
func (x *exchange) readBody(most int64) ([]byte, error) {
	r := x.c.Request
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if whole, ok := r.Body.(*wire.Body); ok {
		body := whole.Detach()
		if int64(len(body)) > most {
			return nil, errLongBody(most)
		}
		return body, nil
	}
	if x.peer {
		release, err := x.holdBody(most)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
	if err != nil {
		if !x.peer { // a peer's connection carries other calls
			x.c.Writer.Header().Set("Connection", "close")
		}
		return nil, x.bodyError(err)
	}
	return body, nil
}

func (x *exchange) bodyError(err error) error {
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return errLongBody(long.Limit)
	case x.peer: // the link is to blame, not the caller
		return lockapi.Errorf(lockapi.CodeNoMaster, "the body did not arrive from the replica that forwarded the call: %v", err)
	case errors.Is(err, wire.ErrCrowded):
		return errCrowded()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return lockapi.Invalid("body", "the body did not arrive within %v", x.opts.BodyTimeout)
	default:
		return lockapi.Invalid("body", "the body cannot be read: %v", err)
	}
}

func errLongBody(most int64) error {
	return lockapi.Errorf(lockapi.CodeTooLarge, "the body is longer than %d bytes, the limit of this call", most)
}

// errCrowded is the answer to an incomplete request that was dropped.
func errCrowded() *lockapi.Error {
	return lockapi.TooMany("half-sent-bytes", maxHalfBytes, maxHalfBytes, "this replica's memory of %d MiB for incomplete requests is full, and this was the oldest of them; "+
		"send it again without a pause", maxHalfBytes>>20)
}

// mostHeaders is how many bytes of headers a waiting call may keep. Callers may
// send many of them and let the call wait.
const mostHeaders = 1 << 10

// headerEntry is about what a header takes beyond its name and value.
const headerEntry = 64

// trimHeaders drops the headers if they are large, and the memory that they are
// part of. A call that has begun to wait no longer needs them, except the
// credential.
func (x *exchange) trimHeaders() {
	h := x.c.Request.Header
	size := len(h) * headerEntry
	for name, values := range h {
		size += len(name)
		for _, v := range values {
			size += len(v)
		}
	}
	if size > mostHeaders {
		kept := http.Header{}
		for _, v := range h[headerAuthorization] {
			kept.Add(headerAuthorization, strings.Clone(v))
		}
		clear(h) // the connection has this map, too
		x.c.Request.Header = kept
	}
}
