package history

import (
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// The records below are of the sessions A to D with one lock, "/l" unless they
// say otherwise. Times are milliseconds; without one, an attempt begins and
// ends after all those before it.

type edit func(*Attempt)

func during(call, end int64) edit {
	return func(a *Attempt) { a.Call, a.Return = call*1e6, end*1e6 }
}
func token(n uint64) edit     { return func(a *Attempt) { a.Token = n } }
func came(o Outcome) edit     { return func(a *Attempt) { a.Outcome = o } }
func on(path string) edit     { return func(a *Attempt) { a.Path = path } }
func shared(limit int64) edit { return func(a *Attempt) { a.Mode, a.Limit = lockapi.Shared, limit } }
func waiting(a *Attempt)      { a.WaitMS = 500 }
func queueing(a *Attempt)     { a.Queue = true }
func delaying(ms int64) edit  { return func(a *Attempt) { a.DelayMS = ms } }
func ttl(ms int64) edit       { return func(a *Attempt) { a.TTLMS = ms } }

// holds adds holders to a read or a refusal: "A/h" with token n.
func sees(pair string, n uint64, mode lockapi.Mode) edit {
	return func(a *Attempt) {
		session, handle, _ := strings.Cut(pair, "/")
		a.Holders = append(a.Holders, lockapi.Holder{Session: session, Handle: handle, Token: n, Mode: mode})
		if a.Kind == Read {
			a.State, a.Mode = lockapi.StateHeld, mode
		}
	}
}

func attempt(kind Kind, pair string, edits []edit) Attempt {
	session, handle, _ := strings.Cut(pair, "/")
	a := Attempt{Client: session, Kind: kind, Outcome: Done, Path: "/l", Session: session, Handle: handle}
	switch kind {
	case Acquire, Sequencer:
		a.Mode = lockapi.Exclusive
	case Read:
		a.State = lockapi.StateFree
	case Open, Close, Keepalive:
		a.Path = ""
	}
	for _, e := range edits {
		e(&a)
	}
	return a
}

func acquire(pair string, edits ...edit) Attempt { return attempt(Acquire, pair, edits) }
func free(pair string, edits ...edit) Attempt    { return attempt(Release, pair, edits) }
func look(edits ...edit) Attempt                 { return attempt(Read, "", edits) }
func sequencer(edits ...edit) Attempt            { return attempt(Sequencer, "", edits) }
func open(session string, edits ...edit) Attempt { return attempt(Open, session, edits) }
func closed(session string, edits ...edit) Attempt {
	return attempt(Close, session, edits)
}

const (
	ex = lockapi.Exclusive
	sh = lockapi.Shared
)

var unknown, refused, nothing, goneAnswer, queued = came(Unknown), came(Refused), came(Nothing), came(Gone), came(Queued)

// right are records of what one lock may do.
var right = map[string][]Attempt{
	"one after the other": {acquire("A/1", token(1)), look(sees("A/1", 1, ex)), free("A/1", token(1)), look(), acquire("B/1", token(2))},
	"refused while held":  {acquire("A/1", token(1)), acquire("B/1", refused, sees("A/1", 1, ex))},
	"asked again":         {acquire("A/1", token(1)), acquire("A/1", token(1)), free("A/1"), free("A/1", nothing)},
	"at the same time": {acquire("A/1", token(2), during(0, 10)), acquire("B/1", token(1), during(0, 10)),
		free("B/1", during(1, 10)), free("A/1", during(12, 13))},
	"a lost answer that had an effect":      {acquire("A/1", unknown), look(), look(sees("A/1", 1, ex)), acquire("A/1", token(1))},
	"a lost answer that had none":           {acquire("A/1", unknown), look(), acquire("B/1", token(1))},
	"a lost answer whose effect nobody saw": {acquire("A/1", unknown), acquire("B/1", refused), free("A/1"), acquire("B/2", token(9))},
	"a late duplicate":                      {acquire("A/1", unknown), acquire("A/1", token(1)), free("A/1", token(1)), look(), look(sees("A/1", 2, ex))},
	"a release that was late":               {acquire("A/1", token(1)), free("A/1", unknown), look(sees("A/1", 1, ex)), look()},
	"a release that got lost":               {acquire("A/1", token(1)), free("A/1", unknown), look(sees("A/1", 1, ex)), free("A/1")},
	"a place that is granted":               {acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("A/1"), look(sees("B/1", 2, ex)), acquire("B/1", queueing, token(2))},
	"a place that is left":                  {acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1"), free("A/1"), look()},
	"a wait that is taken back":             {acquire("A/1", unknown, waiting), look(sees("A/1", 1, ex)), look(), acquire("B/1", token(2))},
	"a semaphore":                           {acquire("A/1", shared(2), token(1)), acquire("B/1", shared(2), token(2)), acquire("C/1", shared(2), refused)},
	"shared behind a waiting exclusive": {acquire("A/1", shared(0), token(1)), acquire("B/1", waiting, refused, during(100, 600)),
		acquire("C/1", shared(0), refused, during(200, 201))},
	"a session that expires": {open("A", ttl(1000), during(0, 1)), acquire("A/1", token(1), during(1, 2)), acquire("B/1", token(2), during(999, 1001)),
		free("A/1", goneAnswer, during(1002, 1003))},
	"a lock-delay": {open("A", ttl(1000), during(0, 1)), acquire("A/1", delaying(500), token(1), during(1, 2)),
		look(func(a *Attempt) { a.State = lockapi.StateDelayed }, during(1100, 1101)), acquire("B/1", token(2), during(1500, 1501))},
	"lock-delays of different lengths": {open("A", ttl(1000), during(0, 1)), acquire("A/0", delaying(900), token(1), during(1, 2)), free("A/0", during(3, 4)),
		acquire("A/1", delaying(500), token(2), during(5, 6)), acquire("B/1", token(3), during(1500, 1501))},
	"a closed session":     {open("A", ttl(1000)), acquire("A/1", delaying(500), token(1)), closed("A"), acquire("B/1", token(2))},
	"a sequencer":          {acquire("A/1", token(1)), sequencer(token(1)), free("A/1"), sequencer(token(1), nothing)},
	"tokens of two locks":  {acquire("A/1", token(2), during(0, 10)), acquire("B/1", on("/m"), token(1), during(9, 10))},
	"a queue in its order": {acquire("A/1", token(1)), acquire("B/1", queueing, queued), acquire("C/1", queueing, queued), free("A/1"), acquire("B/1", queueing, token(2)), free("B/1"), acquire("C/1", queueing, token(3))},
}

// broken are records of what no lock may do, with a part of what Check says.
var broken = map[string]struct {
	record []Attempt
	says   string
}{
	"two holders":                       {[]Attempt{acquire("A/1", token(1)), acquire("B/1", token(2))}, "not what one lock"},
	"refused though free":               {[]Attempt{look(), acquire("A/1", refused)}, "not what one lock"},
	"a stale read after a grant":        {[]Attempt{acquire("A/1", token(1)), look()}, "not what one lock"},
	"a stale read after a release":      {[]Attempt{acquire("A/1", token(1)), free("A/1"), look(sees("A/1", 1, ex))}, "not what one lock"},
	"a read from the future":            {[]Attempt{look(sees("A/1", 1, ex)), acquire("A/1", token(1))}, "not what one lock"},
	"a lost grant":                      {[]Attempt{acquire("A/1", token(1)), free("A/1", nothing)}, "not what one lock"},
	"a grant that vanishes":             {[]Attempt{acquire("A/1", token(1)), look()}, "not what one lock"},
	"a token that does not grow":        {[]Attempt{acquire("A/1", token(2)), free("A/1"), acquire("B/1", token(1))}, "was granted after"},
	"one token twice":                   {[]Attempt{acquire("A/1", token(1), during(0, 9)), acquire("B/1", on("/m"), token(1), during(0, 9))}, "is of two grants"},
	"tokens that fall over two locks":   {[]Attempt{acquire("A/1", token(2)), acquire("B/1", on("/m"), token(1))}, "was granted after"},
	"another token for the same pair":   {[]Attempt{acquire("A/1", token(1)), acquire("A/1", token(2))}, "not what one lock"},
	"more than the limit":               {[]Attempt{acquire("A/1", shared(1), token(1)), acquire("B/1", shared(1), token(2))}, "not what one lock"},
	"a crowd in a read":                 {[]Attempt{acquire("A/1", unknown), acquire("B/1", unknown), look(sees("A/1", 1, ex), sees("B/1", 2, ex))}, "too many holders"},
	"exclusive beside shared":           {[]Attempt{acquire("A/1", shared(0), token(1)), acquire("B/1", token(2))}, "not what one lock"},
	"shared refused for no reason":      {[]Attempt{acquire("A/1", shared(0), token(1)), acquire("B/1", shared(0), refused)}, "not what one lock"},
	"no effect that had one":            {[]Attempt{acquire("A/1", came(NoEffect)), look(sees("A/1", 1, ex))}, "not what one lock"},
	"a refusal that had an effect":      {[]Attempt{acquire("B/1", token(1)), acquire("A/1", refused), free("B/1"), look(sees("A/1", 2, ex))}, "not what one lock"},
	"an unknown outcome before it":      {[]Attempt{look(sees("A/1", 1, ex)), acquire("A/1", unknown)}, "not what one lock"},
	"an acquire that worked twice":      {[]Attempt{acquire("A/1", token(1)), free("A/1"), look(sees("A/1", 2, ex))}, "not what one lock"},
	"a place that outlives its leaving": {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1"), free("A/1"), look(sees("B/1", 2, ex))}, "not what one lock"},
	"a place that is lost":              {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1", nothing)}, "not what one lock"},
	"a try that is taken back":          {[]Attempt{acquire("A/1", unknown), look(sees("A/1", 1, ex)), look()}, "not what one lock"},
	"a session that expires early":      {[]Attempt{open("A", ttl(1000), during(0, 1)), free("A/1", goneAnswer, during(900, 999))}, "before its lease ended"},
	"an early expiry that others see":   {[]Attempt{open("A", ttl(1000), during(0, 1)), acquire("A/1", token(1), during(1, 2)), acquire("B/1", token(2), during(998, 999))}, "not what one lock"},
	"a keepalive that did not count": {[]Attempt{open("A", ttl(1000), during(0, 1)), attempt(Keepalive, "A", []edit{ttl(1000), func(a *Attempt) { a.HeldMS = 300 }, during(500, 801)}),
		free("A/1", goneAnswer, during(1700, 1799))}, "before its lease ended"},
	"a hold that outlives its session": {[]Attempt{open("A", ttl(1000)), acquire("A/1", token(1)), closed("A"), look(sees("A/1", 1, ex))}, "not what one lock"},
	"a grant after the session's end":  {[]Attempt{open("A", ttl(1000)), closed("A"), acquire("A/1", token(1))}, "not what one lock"},
	"a closed session that lives":      {[]Attempt{open("A", ttl(1000)), closed("A"), free("A/1", nothing)}, "not what one lock"},
	"a lock-delay that is not kept": {[]Attempt{open("A", ttl(1000), during(0, 1)), acquire("A/1", delaying(500), token(1), during(1, 2)),
		look(func(a *Attempt) { a.State = lockapi.StateDelayed }, during(1100, 1101)), acquire("B/1", token(2), during(1498, 1499))}, "not what one lock"},
	"valid after the release": {[]Attempt{acquire("A/1", token(1)), free("A/1"), sequencer(token(1))}, "not what one lock"},
	"not valid while held":    {[]Attempt{acquire("A/1", token(1)), sequencer(token(1), nothing)}, "not what one lock"},
	"a queue out of order": {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), acquire("C/1", queueing, queued), free("A/1"),
		acquire("C/1", queueing, token(2)), free("C/1"), acquire("B/1", queueing, token(3))}, "overtaken"},
	"an answer that there is not": {[]Attempt{acquire("A/1", came(Wrong))}, "outside the contract"},
}

// dated gives the attempts without a time one behind all before them.
func dated(record []Attempt) []Attempt {
	last := int64(0)
	for i := range record {
		a := &record[i]
		if a.Return == 0 {
			a.Call, a.Return = last+1, last+2
		}
		last = max(last, a.Return)
	}
	return record
}

func TestRightRecords(t *testing.T) {
	for name, record := range right {
		if v := Check(dated(record), time.Minute); len(v.Problems) > 0 {
			t.Errorf("%s: %q", name, v.Problems)
		}
	}
}

// TestBrokenRecords: every kind of fault is found, and by the part of Check
// that is there for it.
func TestBrokenRecords(t *testing.T) {
	for name, c := range broken {
		v := Check(dated(c.record), time.Minute)
		if all := strings.Join(v.Problems, "; "); !strings.Contains(all, c.says) {
			t.Errorf("%s: found %q, want %q", name, all, c.says)
		}
	}
}

// TestUndecidedIsAProblem: a check that ran out of time has not found the
// record to be right.
func TestUndecidedIsAProblem(t *testing.T) {
	v := Check(dated([]Attempt{acquire("A/1", token(1)), acquire("B/1", token(2))}), 1)
	if len(v.Problems) != 1 {
		t.Fatalf("found %q, want one problem", v.Problems)
	}
}

// TestPictures: a path whose record is not right is drawn, and the other is
// not.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	v := Check(dated([]Attempt{acquire("A/1", token(1)), look(), acquire("A/2", on("/m"), token(2)), look(on("/m"), sees("A/2", 2, ex))}), time.Minute)
	files, err := v.WritePictures(func(path string) string { return dir + strings.ReplaceAll(path, "/", "-") + ".html" })
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "-l.html") {
		t.Errorf("pictures %v, %v; want one of /l", files, err)
	}
}
