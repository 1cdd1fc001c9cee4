package server

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// refuse returns the complete reply to an invalid request.
func (s *Server) refuse(status int, reason string) []byte {
	if status == http.StatusTooManyRequests {
		return s.canned(status, errCrowded())
	}
	if reason == "" {
		reason = "the request line or a header is malformed; check that each % in the URL precedes two hexadecimal digits"
	}
	return s.canned(status, lockapi.Invalid("request", "%s", reason))
}

// canned returns a complete reply without a request. It is the connection's
// last reply.
func (s *Server) canned(status int, e *lockapi.Error) []byte {
	problem := e.Problem()
	problem.Status = status
	body, _ := encodeProblem(problem)
	defer body.release()
	header := http.Header{}
	s.stamp(header)
	if s.isClosed() { // the caller is unknown
		delete(header, lockapi.HeaderMaster)
		delete(header, lockapi.HeaderCell)
	}
	header["Cache-Control"], header["Vary"] = noStore, varyCaller
	header.Set("Connection", "close")
	header["Content-Type"] = typeProblem
	header.Set("Content-Length", fmt.Sprint(body.Len()))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if retry := retryAfter(e); retry > 0 {
		header.Set("Retry-After", fmt.Sprint(retry))
	}
	var reply bytes.Buffer
	fmt.Fprintf(&reply, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = header.Write(&reply)
	reply.WriteString("\r\n")
	reply.Write(body.Bytes())
	s.metrics.count("other", "other", status, 0)
	return reply.Bytes()
}
