package server

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// document is a reply that has headers of its own or is not JSON.
type document struct {
	header      map[string]string
	status      int // replaces the usual status; 304 has no body
	json        any
	raw         []byte // if json is nil
	contentType []string
}

// Media types of contents.
var (
	typeText  = []string{"text/plain; charset=utf-8"}
	typeBytes = []string{"application/octet-stream"}
)

func (d *document) replayed(again bool) {
	if again {
		if d.header == nil {
			d.header = map[string]string{}
		}
		d.header[lockapi.HeaderReplayed] = "true"
	}
}

func (x *exchange) replyDocument(status int, d *document) error {
	h := x.c.Writer.Header()
	for name, value := range d.header {
		h.Set(name, value)
	}
	switch {
	case d.status == http.StatusNotModified:
		return x.reply(d.status, nil)
	case d.json != nil:
		return x.reply(status, d.json)
	}
	x.endTurn() // the caller may read slowly
	x.write(status, d.contentType, d.raw)
	return nil
}

func written(_ *exchange, w *lockapi.WriteFile, answer any, out master.Outcome) (int, any) {
	done := answer.(master.FileWritten)
	d := &document{json: done.Stat, header: map[string]string{headerETag: etag(done.Stat.Revision)}}
	d.replayed(out.Replayed)
	if w.Sequential {
		d.header["Location"] = lockapi.RouteFiles + lockapi.EscapePath(done.Stat.Path)
	}
	if done.Created {
		return http.StatusCreated, d
	}
	return http.StatusOK, d
}

func deleted(_ *exchange, d *lockapi.DeleteFiles, answer any, out master.Outcome) (int, any) {
	done := answer.(master.FilesDeleted)
	reply := lockapi.FilesDeleted{Deleted: done.Files, Revision: done.Revision}
	if d.Path != "" {
		reply.Deleted = done.Files > 0
		if done.Files == 0 {
			reply.Revision = 0
		}
	}
	doc := &document{json: reply}
	doc.replayed(out.Replayed)
	return http.StatusOK, doc
}

func shown(x *exchange, _ *lockapi.GetFile, answer any, _ master.Outcome) (int, any) {
	_, asJSON := x.query[paramAs.name]
	return http.StatusOK, x.fileDocument(answer.(master.FileRead), asJSON)
}

func (x *exchange) fileDocument(f master.FileRead, asJSON bool) *document {
	s, d := &f.Stat, &document{header: map[string]string{}}
	d.header[headerETag] = etag(s.Revision)
	d.header["Last-Modified"] = s.ModifiedAt.Format(http.TimeFormat)
	d.header[lockapi.HeaderInstance] = strconv.FormatUint(s.Instance, 10)
	d.header[lockapi.HeaderGeneration] = strconv.FormatUint(s.Generation, 10)
	d.header["X-Content-Type-Options"] = "nosniff"
	if s.Session != "" {
		d.header[lockapi.HeaderSession] = s.Session
	}
	switch {
	case x.hasAlready(etag(s.Revision)):
		d.status = http.StatusNotModified
	case asJSON:
		d.json = master.FileOf(*s, f.Content, true)
	default:
		d.raw, d.contentType = f.Content, typeBytes
		if utf8.Valid(f.Content) {
			d.contentType = typeText
		}
	}
	return d
}

// hasAlready reports whether the caller already has the content with this ETag.
func (x *exchange) hasAlready(present string) bool {
	for _, values := range x.c.Request.Header.Values(headerIfNoneMatch) {
		for tag := range strings.SplitSeq(values, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == present {
				return true
			}
		}
	}
	return false
}

func transacted(_ *exchange, _ *lockapi.Transact, answer any, out master.Outcome) (int, any) {
	d := &document{json: answer.(master.TransactionDone).TransactionResult}
	d.replayed(out.Replayed)
	return http.StatusOK, d
}

// keptAll is the reply to keepalives. It notes for the audit log that the
// caller was denied one of the sessions.
func keptAll(x *exchange, _ *lockapi.KeepAliveAll, answer any, _ master.Outcome) (int, any) {
	for _, s := range answer.(lockapi.Keepalives).Sessions {
		if s.Error != nil && isDenial(s.Error.Code) {
			x.noted.bounded, x.noted.code = true, s.Error.Code
		}
	}
	return http.StatusOK, answer
}

func past(x *exchange, _ *lockapi.GetHistory, answer any, _ master.Outcome) (int, any) {
	x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(answer.(lockapi.History).Revision, 10)}
	return http.StatusOK, answer
}

func granted(_ *exchange, _ *lockapi.AcquireLock, answer any, _ master.Outcome) (int, any) {
	if g := answer.(lockapi.Grant); g.State == lockapi.StateQueued {
		return http.StatusAccepted, g
	}
	return http.StatusOK, answer
}
