// Package call sends the calls of a client to its cell. A Caller chooses the
// replica, repeats a Call while that is safe, asks other replicas when one is
// silent, and finds the replicas. It reports what the attempts may have done.
//
// The meaning of calls does not belong here: package client builds them, and
// checks their answers by Call.Check. Sessions, watches and their retries after
// a call belong there, too. Package wire carries the bytes.
//
// The parts of a Caller, and the duty of each:
//
//	router      chooses the route: the endpoint, or one that forwards; penalties
//	finder      finds endpoints by DNS and by asking the cell
//	sameCell    refuses answers of another cell
//	transport   owns the connections to endpoints
//	hedge       asks other replicas for one call when one is silent
package call

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Call is one call of the API, with the record of its attempts so far.
type Call struct {
	Method     string
	Path       string
	Query      string
	Body       []byte
	Fields     [][2]string     // of the header, in addition to the common ones
	Wait       time.Duration   // how long the server may hold it on purpose
	AnswerTime time.Duration   // how late its answer may be; 0 means AnswerTime
	NoRetry    bool            // not sent again after it may have taken effect
	Exclusive  bool            // never under way twice at a time, so not hedged
	Any        bool            // any replica may receive it and ask the master itself
	Stale      bool            // the answer may be out of date
	aside      bool            // a connection dialled for it is not kept
	Cut        context.Context // if set, the context of attempts instead of the caller's
	Renew      func(*Call)     // if set, called before each further attempt, to update times
	span       context.Context // of its Tracer; nil without one
	// Settles reports which refusals also settle earlier attempts that got no
	// answer; nil means none. See outcome.
	Settles func(lockapi.Code) bool

	// The answer that it expects:
	Out        any    // where a 2xx answer's JSON goes; nil to ignore it
	Status     int    // of success; 0 means any 2xx
	StreamType string // of an answer that is a stream; empty for others
	Dated      bool   // the answer has the cell's revision in its header
	Required   Required
	Check      func(*Call) string                // describes what is wrong with Out, given Required; may be nil
	Current    func(*Call, *lockapi.File) string // what is wrong with the present file in a refusal; may be nil

	// Results:
	AsOf    uint64         // the revision of a Dated answer
	Stream  *http.Response // that answer; with an error, a closed one of another media type
	Delayed bool           // the last attempt's answer was late, but the master answered other calls
	account

	// The attempt under way, see Late:
	c        *Caller
	ctx      context.Context
	r        *Route
	sent     time.Duration // clock
	patience time.Duration // how long its replica may be silent; 0 means for ever
	probed   bool          // whether the replica answers others
	hedge    *hedge        // once the replica has been silent for that long
}

// fork returns a copy of the call for an attempt beside others. The copy's
// answer has its own memory.
func (q *Call) fork() *Call {
	own := *q
	own.patience, own.hedge = 0, nil
	if q.Out != nil {
		own.Out = reflect.New(reflect.TypeOf(q.Out).Elem()).Interface()
	}
	return &own
}

// adopt copies the answer of a fork.
func (q *Call) adopt(fork *Call) {
	q.AsOf = fork.AsOf
	if q.Out != nil {
		reflect.ValueOf(q.Out).Elem().Set(reflect.ValueOf(fork.Out).Elem())
	}
}

// Under sets the idempotency key: the call takes effect once, however often it
// is sent.
func (q *Call) Under(key string) {
	q.Fields = append(q.Fields, [2]string{lockapi.HeaderIdempotencyKey, key})
	q.Settles = lockapi.Code.Settles
}

// AnyRefusal is Settles for calls that any refusal settles: the caller finds
// and releases the remains of earlier attempts.
func AnyRefusal(lockapi.Code) bool { return true }

// account records what the attempts of a call have shown, and may have done.
type account struct {
	answered   bool          // by a replica, with any answer
	Unanswered bool          // one may have taken effect, and its answer is missing
	effective  bool          // one may have taken effect, answered or not
	FirstSent  time.Duration // clock when the first such one was sent
}

// add merges another account into this one.
func (a *account) add(o account) {
	a.answered = a.answered || o.answered
	if !o.effective {
		return
	}
	if !a.effective || o.FirstSent < a.FirstSent {
		a.FirstSent = o.FirstSent
	}
	a.effective, a.Unanswered = true, a.Unanswered || o.Unanswered
}

// isHedged reports whether another replica may be asked before the first
// answers.
func (q *Call) isHedged() bool { return !q.NoRetry && !q.Exclusive && q.StreamType == "" }

// Required is what the answer to a call must match. The check functions of
// package client read it.
type Required struct {
	Path      string
	Session   string
	Handle    string
	Mode      lockapi.Mode
	Queue     bool     // a queue position is a valid answer, too
	With      []string // the other locks of a grant
	LastToken uint64   // tokens up to this one were granted before the call
	TTLMS     int64
	Epoch     uint64 // an answer with an earlier one comes from a former master
	// The revision in a linearizable answer about files is at least Since, and a
	// change's is above it.
	Since      uint64
	After      string // a list begins after it
	Content    []byte // of the write
	Created    bool   // the file did not exist
	Sequential bool   // Path is the prefix of the name
}

// Encode returns the JSON of a request; requests always have a JSON form.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("client: " + err.Error())
	}
	return b
}
