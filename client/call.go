package client

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// call is one call of the API, with the record of its attempts so far.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	fields []field            // of the header, in addition to the common ones
	out    any                // where a 2xx answer's JSON goes; nil to ignore it
	wait   time.Duration      // how long the server may hold it on purpose
	late   time.Duration      // how late its answer may be; 0 means answerTime
	once   bool               // not sent again after it may have taken effect
	single bool               // never under way twice at a time, so not hedged
	any    bool               // any replica may receive it and ask the master itself
	stale  bool               // the answer may be out of date
	aside  bool               // a connection dialled for it is not kept
	cut    context.Context    // if set, the context of attempts instead of the caller's
	renew  func(*call)        // if set, called before each further attempt, to update times
	status int                // of success; 0 means any 2xx
	check  func(*call) string // describes what is wrong with out, given want; may be nil
	want   wanted
	media  string          // of an answer that is a stream; empty for others
	stream *http.Response  // that answer; with an error, a closed one of another media type
	span   context.Context // of its Tracer; nil without one
	// settles reports which refusals also settle earlier attempts that got no
	// answer; nil means none. See outcome.
	settles func(lockapi.Code) bool

	account
	overdue bool // the last attempt's answer was late, but the master answered other calls

	// The attempt under way, see Late:
	c        *caller
	ctx      context.Context
	r        *route
	sent     time.Duration // clock
	patience time.Duration // how long its replica may be silent; 0 means for ever
	probed   bool          // whether the replica answers others
	hedge    *hedge        // once the replica has been silent for that long
}

// fork returns a copy of the call for an attempt beside others. The copy's
// answer has its own memory.
func (q *call) fork() *call {
	own := *q
	own.patience, own.hedge = 0, nil
	if q.out != nil {
		own.out = reflect.New(reflect.TypeOf(q.out).Elem()).Interface()
	}
	return &own
}

// adopt copies the answer of a fork.
func (q *call) adopt(fork *call) {
	if q.out != nil {
		reflect.ValueOf(q.out).Elem().Set(reflect.ValueOf(fork.out).Elem())
	}
}

// field is one field of a request's header.
type field struct{ name, value string }

// under sets the idempotency key: the call takes effect once, however often it
// is sent.
func (q *call) under(key string) {
	q.fields = append(q.fields, field{lockapi.HeaderIdempotencyKey, key})
	q.settles = lockapi.Code.Settles
}

// seenThrough is settles for calls that any refusal settles: the caller finds
// and releases the remains of earlier attempts.
func seenThrough(lockapi.Code) bool { return true }

// account records what the attempts of a call have shown, and may have done.
type account struct {
	answered  bool          // by a replica, with any answer
	unsettled bool          // one may have taken effect, and its answer is missing
	effective bool          // one may have taken effect, answered or not
	firstSent time.Duration // clock when the first such one was sent
}

// add merges another account into this one.
func (a *account) add(o account) {
	a.answered = a.answered || o.answered
	if !o.effective {
		return
	}
	if !a.effective || o.firstSent < a.firstSent {
		a.firstSent = o.firstSent
	}
	a.effective, a.unsettled = true, a.unsettled || o.unsettled
}

// isHedged reports whether another replica may be asked before the first
// answers.
func (q *call) isHedged() bool { return !q.once && !q.single }
