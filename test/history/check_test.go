package history

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// The records below are about the sessions A to D and one lock: "/l" unless
// they name another. Times are milliseconds; without one, an attempt begins and
// ends after all earlier ones.

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

// sees adds a holder to a read or a refusal: "A/h" with token n.
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

// right are records that one lock may produce.
var right = map[string][]Attempt{
	"one after the other": {acquire("A/1", token(1)), look(sees("A/1", 1, ex)), free("A/1", token(1)), look(), acquire("B/1", token(2))},
	"refused while held":  {acquire("A/1", token(1)), acquire("B/1", refused, sees("A/1", 1, ex))},
	"asked again":         {acquire("A/1", token(1)), acquire("A/1", token(1)), free("A/1"), free("A/1", nothing)},
	"at the same time": {acquire("A/1", token(2), during(0, 10)), acquire("B/1", token(1), during(0, 10)),
		free("B/1", during(1, 10)), free("A/1", during(12, 13))},
	"a lost answer with an effect":        {acquire("A/1", unknown), look(), look(sees("A/1", 1, ex)), acquire("A/1", token(1))},
	"a lost answer without one":           {acquire("A/1", unknown), look(), acquire("B/1", token(1))},
	"a lost answer with an unseen effect": {acquire("A/1", unknown), acquire("B/1", refused), free("A/1"), acquire("B/2", token(9))},
	"a late duplicate":                    {acquire("A/1", unknown), acquire("A/1", token(1)), free("A/1", token(1)), look(), look(sees("A/1", 2, ex))},
	"a late release":                      {acquire("A/1", token(1)), free("A/1", unknown), look(sees("A/1", 1, ex)), look()},
	"a lost release":                      {acquire("A/1", token(1)), free("A/1", unknown), look(sees("A/1", 1, ex)), free("A/1")},
	"a queue position that is granted":    {acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("A/1"), look(sees("B/1", 2, ex)), acquire("B/1", queueing, token(2))},
	"a queue position, repeated in vain":  {acquire("A/1", token(1)), acquire("B/1", queueing, queued), acquire("B/1", queueing, came(NoEffect)), free("B/1")},
	"a queue position that is given up":   {acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1"), free("A/1"), look()},
	"a wait with its grant revoked":       {acquire("A/1", unknown, waiting), look(sees("A/1", 1, ex)), look(), acquire("B/1", token(2))},
	"a semaphore":                         {acquire("A/1", shared(2), token(1)), acquire("B/1", shared(2), token(2)), acquire("C/1", shared(2), refused)},
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

// broken are records that no lock may produce, with a part of Check's report.
var broken = map[string]struct {
	record []Attempt
	says   string
}{
	"two holders":                                {[]Attempt{acquire("A/1", token(1)), acquire("B/1", token(2))}, "not possible for one lock"},
	"refused though free":                        {[]Attempt{look(), acquire("A/1", refused)}, "not possible for one lock"},
	"a stale read after a grant":                 {[]Attempt{acquire("A/1", token(1)), look()}, "not possible for one lock"},
	"a stale read after a release":               {[]Attempt{acquire("A/1", token(1)), free("A/1"), look(sees("A/1", 1, ex))}, "not possible for one lock"},
	"a read from the future":                     {[]Attempt{look(sees("A/1", 1, ex)), acquire("A/1", token(1))}, "not possible for one lock"},
	"a lost grant":                               {[]Attempt{acquire("A/1", token(1)), free("A/1", nothing)}, "not possible for one lock"},
	"a grant that vanishes":                      {[]Attempt{acquire("A/1", token(1)), look()}, "not possible for one lock"},
	"a token that does not grow":                 {[]Attempt{acquire("A/1", token(2)), free("A/1"), acquire("B/1", token(1))}, "was granted after"},
	"one token twice":                            {[]Attempt{acquire("A/1", token(1), during(0, 9)), acquire("B/1", on("/m"), token(1), during(0, 9))}, "belongs to two grants"},
	"tokens that fall across two locks":          {[]Attempt{acquire("A/1", token(2)), acquire("B/1", on("/m"), token(1))}, "was granted after"},
	"another token for the same pair":            {[]Attempt{acquire("A/1", token(1)), acquire("A/1", token(2))}, "not possible for one lock"},
	"more than the limit":                        {[]Attempt{acquire("A/1", shared(1), token(1)), acquire("B/1", shared(1), token(2))}, "not possible for one lock"},
	"several holders in a read":                  {[]Attempt{acquire("A/1", unknown), acquire("B/1", unknown), look(sees("A/1", 1, ex), sees("B/1", 2, ex))}, "too many holders"},
	"exclusive beside shared":                    {[]Attempt{acquire("A/1", shared(0), token(1)), acquire("B/1", token(2))}, "not possible for one lock"},
	"shared refused without reason":              {[]Attempt{acquire("A/1", shared(0), token(1)), acquire("B/1", shared(0), refused)}, "not possible for one lock"},
	"no effect reported, but there was one":      {[]Attempt{acquire("A/1", came(NoEffect)), look(sees("A/1", 1, ex))}, "not possible for one lock"},
	"a refusal with an effect":                   {[]Attempt{acquire("B/1", token(1)), acquire("A/1", refused), free("B/1"), look(sees("A/1", 2, ex))}, "not possible for one lock"},
	"an unknown outcome seen before the call":    {[]Attempt{look(sees("A/1", 1, ex)), acquire("A/1", unknown)}, "not possible for one lock"},
	"an acquire that worked twice":               {[]Attempt{acquire("A/1", token(1)), free("A/1"), look(sees("A/1", 2, ex))}, "not possible for one lock"},
	"a queue position that outlives its release": {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1"), free("A/1"), look(sees("B/1", 2, ex))}, "not possible for one lock"},
	"a lost queue position":                      {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), free("B/1", nothing)}, "not possible for one lock"},
	"a grant without a wait revoked":             {[]Attempt{acquire("A/1", unknown), look(sees("A/1", 1, ex)), look()}, "not possible for one lock"},
	"a session that expires early":               {[]Attempt{open("A", ttl(1000), during(0, 1)), free("A/1", goneAnswer, during(900, 999))}, "before its lease ended"},
	"an early expiry seen by others":             {[]Attempt{open("A", ttl(1000), during(0, 1)), acquire("A/1", token(1), during(1, 2)), acquire("B/1", token(2), during(998, 999))}, "not possible for one lock"},
	"a keepalive without effect": {[]Attempt{open("A", ttl(1000), during(0, 1)), attempt(Keepalive, "A", []edit{ttl(1000), func(a *Attempt) { a.HeldMS = 300 }, during(500, 801)}),
		free("A/1", goneAnswer, during(1700, 1799))}, "before its lease ended"},
	"a hold that outlives its session": {[]Attempt{open("A", ttl(1000)), acquire("A/1", token(1)), closed("A"), look(sees("A/1", 1, ex))}, "not possible for one lock"},
	"a grant after the session's end":  {[]Attempt{open("A", ttl(1000)), closed("A"), acquire("A/1", token(1))}, "not possible for one lock"},
	"a closed session that lives":      {[]Attempt{open("A", ttl(1000)), closed("A"), free("A/1", nothing)}, "not possible for one lock"},
	"a lock-delay ignored": {[]Attempt{open("A", ttl(1000), during(0, 1)), acquire("A/1", delaying(500), token(1), during(1, 2)),
		look(func(a *Attempt) { a.State = lockapi.StateDelayed }, during(1100, 1101)), acquire("B/1", token(2), during(1498, 1499))}, "not possible for one lock"},
	"a release of a wait without effect": {[]Attempt{acquire("A/1", waiting, came(NoEffect)), free("A/1")}, "not possible for one lock"},
	"a grant before its request":         {[]Attempt{acquire("A/1", came(NoEffect)), look(sees("A/1", 1, ex)), acquire("A/1", token(1))}, "not possible for one lock"},
	"a queue position without effect":    {[]Attempt{acquire("A/1", queueing, came(NoEffect)), free("A/1")}, "not possible for one lock"},
	"valid after the release":            {[]Attempt{acquire("A/1", token(1)), free("A/1"), sequencer(token(1))}, "not possible for one lock"},
	"not valid while held":               {[]Attempt{acquire("A/1", token(1)), sequencer(token(1), nothing)}, "not possible for one lock"},
	"a queue out of order": {[]Attempt{acquire("A/1", token(1)), acquire("B/1", queueing, queued), acquire("C/1", queueing, queued), free("A/1"),
		acquire("C/1", queueing, token(2)), free("C/1"), acquire("B/1", queueing, token(3))}, "overtaken"},
	"an answer outside the contract": {[]Attempt{acquire("A/1", came(Wrong))}, "outside the contract"},
}

// dated gives each attempt without a time one after all earlier attempts.
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

// TestBrokenRecords: every kind of fault is found by the part of Check meant
// for it, and can be drawn.
func TestBrokenRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "picture")
	for name, c := range broken {
		v := Check(dated(c.record), time.Minute)
		if all := strings.Join(v.Problems, "; "); !strings.Contains(all, c.says) {
			t.Errorf("%s: found %q, want %q", name, all, c.says)
		}
		if _, err := v.WritePictures(func(string) string { return file }); err != nil {
			t.Error(err)
		}
	}
}

// TestUndecidedIsAProblem: a check that runs out of time does not pass the
// record.
func TestUndecidedIsAProblem(t *testing.T) {
	v := Check(dated([]Attempt{acquire("A/1", token(1)), acquire("B/1", token(2))}), 1)
	if len(v.Problems) != 1 {
		t.Fatalf("found %q, want one problem", v.Problems)
	}
}

// TestPictures: a path with a wrong record is drawn, and other paths are not.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	v := Check(dated([]Attempt{acquire("A/1", token(1)), look(), acquire("A/2", on("/m"), token(2)), look(on("/m"), sees("A/2", 2, ex))}), time.Minute)
	files, err := v.WritePictures(func(path string) string { return dir + strings.ReplaceAll(path, "/", "-") + ".html" })
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], "-l.html") {
		t.Errorf("pictures %v, %v; want one of /l", files, err)
	}
}
