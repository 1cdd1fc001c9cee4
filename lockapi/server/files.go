package server

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
)

// Names of conditional headers (RFC 9110, section 13.1).
const (
	headerIfMatch     = "If-Match"
	headerIfNoneMatch = "If-None-Match"
	headerETag        = "ETag"
)

func decodePut(x *exchange) (*lockapi.WriteFile, error) {
	path, err := x.lockPath()
	if err != nil {
		return nil, err
	}
	w, err := x.fileWrite(path)
	if err != nil {
		return nil, err
	}
	if _, err := x.query.choiceOf(paramAs, "json"); err != nil { // accepted because the answer to a write is JSON
		return nil, err
	}
	w.Tell, err = x.query.flag(paramContent)
	return w, err
}

// decodeSequential reads a call for a file named by the path and the revision
// that creates it. The path may end in a slash.
func decodeSequential(x *exchange) (*lockapi.WriteFile, error) {
	prefix, err := x.sequentialPrefix()
	if err != nil {
		return nil, err
	}
	if err := x.refuseHeaders("POST creates a file with a new name, which matches nothing"); err != nil {
		return nil, err
	}
	w, err := x.fileWrite(prefix)
	w.Sequential = true
	return w, err
}

// sequentialPrefix returns the request's path, which must be valid with the
// digits appended.
func (x *exchange) sequentialPrefix() (string, error) {
	digits := strings.Repeat("0", lockapi.SequentialDigits)
	path, err := lockapi.UnescapePath(x.c.Param("path") + digits)
	x.node = path
	return strings.TrimSuffix(path, digits), err
}

func (x *exchange) fileWrite(path string) (*lockapi.WriteFile, error) {
	w := &lockapi.WriteFile{Path: path, Content: x.body, Query: x.query}
	var err error
	if w.Session, w.Sequencers, w.Key, err = x.writeParams(); err != nil {
		return w, err
	}
	if w.Ephemeral, err = x.query.choice(paramEphemeral); err != nil {
		return w, err
	}
	if w.Ephemeral != nil && *w.Ephemeral && w.Session == "" {
		return w, lockapi.Invalid(paramEphemeral.name, "ephemeral=true needs a session: the file is deleted when the session ends")
	}
	if w.IfRevision, err = x.ifMatch(); err != nil {
		return w, err
	}
	switch none := x.c.Request.Header.Values(headerIfNoneMatch); {
	case len(none) == 0:
	case len(none) > 1 || none[0] != "*":
		return w, lockapi.Invalid(headerIfNoneMatch, "%s is %q; in a write it must be %q, which means that the file must not exist", headerIfNoneMatch, lockapi.Clip(none[0]), "*")
	case w.IfRevision != nil:
		return w, lockapi.Invalid(headerIfNoneMatch, "%s and %s are both given; give one: a file cannot both have a revision and not exist", headerIfMatch, headerIfNoneMatch)
	default:
		w.IfAbsent = true
	}
	return w, nil
}

// writeParams reads what all changes of files have in common: the session, the
// sequencers and the idempotency key.
func (x *exchange) writeParams() (session string, held []lockapi.Sequencer, key string, err error) {
	if session, err = x.query.onBehalf(); err != nil {
		return "", nil, "", err
	}
	if held, err = x.sequencers(); err == nil {
		key, err = x.writeKey(session)
	}
	return session, held, key, err
}

func (x *exchange) sequencers() ([]lockapi.Sequencer, error) {
	given := x.query.all(paramSequencer)
	if len(given) > lockapi.MaxSequencers {
		return nil, lockapi.Invalid(paramSequencer.name, "%d sequencers are given; at most %d are allowed in one call", len(given), lockapi.MaxSequencers)
	}
	var out []lockapi.Sequencer
	for _, value := range given {
		s, err := lockapi.ParseSequencer(value)
		if err != nil {
			e := err.(*lockapi.Error)
			e.Field = paramSequencer.name
			return nil, e
		}
		out = append(out, s)
	}
	return out, nil
}

// writeKey reads the idempotency key of a write, which needs a session.
func (x *exchange) writeKey(session string) (string, error) {
	key, err := x.header(lockapi.HeaderIdempotencyKey)
	if err == nil {
		err = lockapi.ValidateKey(key)
	}
	switch given := len(x.c.Request.Header.Values(lockapi.HeaderIdempotencyKey)) > 0; {
	case err != nil || !given:
		return "", err
	case key == "":
		return "", lockapi.Invalid(lockapi.HeaderIdempotencyKey, "%s is empty; omit it, or give the write a key of its own", lockapi.HeaderIdempotencyKey)
	case session == "":
		return "", lockapi.Invalid(lockapi.HeaderIdempotencyKey, "%s needs a session: the cell keeps the answer until the session ends", lockapi.HeaderIdempotencyKey)
	}
	return key, nil
}

// ifMatch returns the revision that the file must have; nil for any.
func (x *exchange) ifMatch() (*uint64, error) {
	values := x.c.Request.Header.Values(headerIfMatch)
	if len(values) == 0 {
		return nil, nil
	}
	revision, ok := revisionOf(values[0])
	if len(values) > 1 || !ok {
		return nil, lockapi.Invalid(headerIfMatch, "%s is %q; it must be one revision in quotes, such as %q", headerIfMatch, lockapi.Clip(strings.Join(values, ", ")), `"57"`)
	}
	return &revision, nil
}

func (x *exchange) refuseHeaders(why string) error {
	return errors.Join(x.refuseHeader(headerIfMatch, why), x.refuseHeader(headerIfNoneMatch, why))
}

func (x *exchange) refuseHeader(name, why string) error {
	if len(x.c.Request.Header.Values(name)) == 0 {
		return nil
	}
	return lockapi.Invalid(name, "%s cannot be used with this call: %s; omit it", name, why)
}

// revisionOf parses an entity tag of this server.
func revisionOf(tag string) (uint64, bool) {
	number, ok := strings.CutPrefix(tag, `"`)
	number, closed := strings.CutSuffix(number, `"`)
	n, err := strconv.ParseUint(number, 10, 64)
	return n, ok && closed && err == nil && n > 0 && n <= lockapi.MaxToken && strconv.FormatUint(n, 10) == number
}

func etag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

func decodeDelete(x *exchange) (*lockapi.DeleteFiles, error) {
	path, err := x.lockPath()
	if err != nil {
		return nil, err
	}
	d := &lockapi.DeleteFiles{Path: path}
	if d.IfRevision, err = x.ifMatch(); err != nil {
		return nil, err
	}
	if err := x.refuseHeader(headerIfNoneMatch, "a missing file cannot be deleted"); err != nil {
		return nil, err
	}
	d.Session, d.Sequencers, d.Key, err = x.writeParams()
	return d, err
}

func decodeDeleteBelow(x *exchange) (*lockapi.DeleteFiles, error) {
	d := &lockapi.DeleteFiles{Prefix: x.query[paramBelow.name]}
	if err := lockapi.ValidatePrefix(d.Prefix); err != nil {
		return nil, err
	}
	if err := x.refuseHeaders("it applies to one file, not to a directory"); err != nil {
		return nil, err
	}
	var err error
	d.Session, d.Sequencers, d.Key, err = x.writeParams()
	return d, err
}

func decodeGet(x *exchange) (*lockapi.GetFile, error) {
	path, err := x.lockPath()
	if err != nil {
		return nil, err
	}
	if _, err := x.query.choiceOf(paramAs, "json"); err != nil {
		return nil, err
	}
	return &lockapi.GetFile{Path: path}, x.refuseHeader(headerIfMatch, "a read supports If-None-Match only")
}

func refuseIfMatch(x *exchange, _ *lockapi.ListFiles) error {
	return x.refuseHeader(headerIfMatch, "a read supports If-None-Match only")
}

func (x *exchange) lockPath() (path string, err error) {
	x.node, err = lockapi.UnescapePath(x.c.Param("path"))
	return x.node, err
}

// transactionBody is a transaction that distinguishes an empty session from a
// missing one.
type transactionBody struct{ lockapi.Transaction }

// notGiven marks a missing field. A JSON string is never invalid UTF-8.
const notGiven = "\xff"

// Validate also refuses an empty session. The transaction would have no
// session, although a caller with an unset variable intends one.
func (t *transactionBody) Validate() error {
	switch t.Session {
	case "":
		return lockapi.Invalid("session", "session is empty; give the id of an open session, or omit it")
	case notGiven:
		t.Session = ""
	}
	return t.Transaction.Validate()
}

func decodeTransaction(x *exchange) (*lockapi.Transact, error) {
	if err := x.refuseHeaders("a transaction has its conditions in the body"); err != nil {
		return nil, err
	}
	body := transactionBody{lockapi.Transaction{Session: notGiven}}
	if err := codec.Decode(x.body, &body); err != nil {
		return nil, err
	}
	if err := body.Validate(); err != nil {
		return nil, err
	}
	x.body = codec.Compact(x.body)
	key, err := x.writeKey(body.Session)
	return &lockapi.Transact{Key: key, Transaction: body.Transaction}, err
}
