package history

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// The records below are about the keys d/k and d/m, which the door has as /d/k
// and /d/m, and the sessions A and B, in the same form as for locks.

func keysCalled(kind Kind, op lockapi.KeyOperation, edits ...edit) Attempt {
	op.Path = "/d/k"
	a := Attempt{Client: "c", Kind: kind, Outcome: Done, Path: op.Path, Session: op.Session, Host: "r1", Keys: &KeyCall{Operations: []lockapi.KeyOperation{op}}}
	for _, e := range edits {
		e(&a)
	}
	if a.Outcome == Refused && a.Keys.Failed == nil {
		a.Keys.Failed = []int{0}
	}
	return a
}

func keySet(text string, edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: lockapi.KeySet, Content: []byte(text)}, edits...)
}

func keyCAS(index uint64, text string, edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: lockapi.KeyCAS, Index: index, Content: []byte(text)}, edits...)
}

func keyLock(session, text string, edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: lockapi.KeyLock, Session: session, Content: []byte(text)}, edits...)
}

func keyUnlock(session, text string, edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: lockapi.KeyUnlock, Session: session, Content: []byte(text)}, edits...)
}

func keyDelete(edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: lockapi.KeyDelete}, edits...)
}

func keyGet(index uint64, edits ...edit) Attempt {
	return keysCalled(KeyRead, lockapi.KeyOperation{Verb: lockapi.KeyGetOrEmpty}, append([]edit{func(a *Attempt) { a.Keys.Index = index }}, edits...)...)
}

// keyTree reads every key of the directory.
func keyTree(index uint64, edits ...edit) Attempt {
	return keyGet(index, append([]edit{func(a *Attempt) {
		a.Path, a.Keys.Operations[0] = "/d/", lockapi.KeyOperation{Verb: lockapi.KeyGetTree, Path: "/d/"}
	}}, edits...)...)
}

// shows adds a key to an answer: its content, revisions, LockIndex and holder.
func shows(text string, create, modify, locks uint64, session string) edit {
	return func(a *Attempt) {
		a.Keys.Found = append(a.Keys.Found, lockapi.Key{Path: "/d/k", Content: []byte(text), CreateIndex: create, ModifyIndex: modify, Locks: locks, Session: session})
	}
}

func ofM(a *Attempt)     { a.Path, a.Keys.Operations[0].Path = "/d/m", "/d/m" }
func stale(a *Attempt)   { a.Keys.Stale = true }
func deletes(a *Attempt) { a.Deletes = true }
func delays(a *Attempt)  { a.Delays = true }

// keyTxn checks the index of /d/k, sets /d/m and locks /d/k for A.
func keyTxn(index uint64, edits ...edit) Attempt {
	return keyCAS(index, "x", append([]edit{func(a *Attempt) {
		a.Keys.Operations = []lockapi.KeyOperation{{Verb: lockapi.KeyCheckIndex, Path: "/d/k", Index: index},
			{Verb: lockapi.KeySet, Path: "/d/m", Content: []byte("m")}, {Verb: lockapi.KeyLock, Path: "/d/k", Session: "A", Content: []byte("t")}}
	}}, edits...)...)
}

func txnShows(first, second, third uint64) edit {
	return func(a *Attempt) {
		a.Keys.Found = []lockapi.Key{{Path: "/d/k", CreateIndex: first, ModifyIndex: first}, {Path: "/d/m", CreateIndex: second, ModifyIndex: second},
			{Path: "/d/k", CreateIndex: first, ModifyIndex: third, Locks: 1, Session: "A"}}
	}
}

func failing(ops ...int) edit { return func(a *Attempt) { a.Outcome, a.Keys.Failed = Refused, ops } }

// short-lived sessions: their leases end at 1 s.
func opened(session string, edits ...edit) Attempt {
	return open(session, append([]edit{ttl(1000), during(0, 1)}, edits...)...)
}

var onK = on("/d/k")

// rightKeys are records that the door of one cell may produce.
var rightKeys = map[string][]Attempt{
	"one after the other": {keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keyCAS(5, "y"), keyCAS(5, "z", refused),
		keyGet(7, shows("y", 5, 7, 0, "")), keyDelete(), keyGet(8), keyCAS(0, "w"), keyGet(9, shows("w", 9, 9, 0, ""))},
	"a lock": {keyLock("A", "x"), keyLock("B", "y", refused), keyGet(5, shows("x", 5, 5, 1, "A")), keyUnlock("B", "z", refused), keyUnlock("A", "y"),
		keyLock("B", "z"), keyGet(9, shows("z", 5, 9, 2, "B"))},
	"two at the same time":           {keyLock("A", "x", during(0, 9)), keyLock("B", "y", refused, during(0, 9))},
	"again by the holder":            {keyLock("A", "x"), keyLock("A", "y"), keyGet(6, shows("y", 4, 6, 1, "A"))},
	"written by another":             {keyLock("A", "x"), keySet("y"), keyGet(6, shows("y", 4, 6, 1, "A"))},
	"deleted while locked":           {keyLock("A", "x"), keyDelete(), keyLock("B", "y"), keyGet(9, shows("y", 9, 9, 1, "B")), keyUnlock("A", "z", refused)},
	"an expiry that releases":        {opened("A"), keyLock("A", "x", during(1, 2)), keyLock("B", "y", during(1001, 1002)), keyGet(9, shows("y", 4, 9, 2, "B"), during(1003, 1004))},
	"an expiry that deletes":         {opened("A", deletes), keyLock("A", "x", during(1, 2)), keyGet(9, during(1001, 1002))},
	"an expiry before the next read": {opened("A"), keyLock("A", "x", during(1, 2)), keyGet(9, shows("x", 4, 9, 1, ""), during(1001, 1002))},
	"a lock-delay after destroy": {opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", delays, during(10, 11)), keyLock("B", "y", refused, during(12, 13)),
		keyLock("B", "z", during(511, 512))},
	"no lock-delay after the API's close":     {opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", during(10, 11)), keyLock("B", "z", during(12, 13))},
	"a lost answer with an effect":            {keySet("x", unknown), keyGet(4), keyGet(5, shows("x", 5, 5, 0, ""))},
	"a lost answer without one":               {keyLock("A", "x", unknown), keyLock("B", "y")},
	"a lost answer with an unseen effect":     {keyLock("A", "x", unknown), keyLock("B", "y", refused)},
	"a lost delete":                           {keySet("x"), keyDelete(unknown), keyGet(6)},
	"a stale read":                            {keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyGet(5, stale, shows("x", 5, 5, 0, ""))},
	"a transaction":                           {keySet("x"), keyTxn(5, txnShows(5, 6, 8)), keyTxn(5, failing(0)), keyLock("B", "z", refused)},
	"a transaction with two failures":         {keyLock("B", "x"), keyTxn(0, failing(0, 2)), keyGet(7, ofM)},
	"a list":                                  {keySet("x"), keySet("m", ofM), keyTree(7, shows("x", 5, 5, 0, ""), shows("m", 7, 7, 0, ""), func(a *Attempt) { a.Keys.Found[1].Path = "/d/m" })},
	"a lock of the API":                       {acquire("A/h", onK, token(1)), keyLock("B", "x", refused), keySet("y"), keyGet(5, shows("y", 5, 5, 0, "A")), free("A/h", onK), keyLock("B", "z")},
	"a lock of the door, refused and read":    {keyLock("A", "x"), acquire("B/h", onK, refused), look(onK, sees("A/", 1, ex)), keyUnlock("A", "y"), look(onK)},
	"a file of the API":                       {keySet("x"), keyFile(stat("/d/k", "x", 5, 5, 1), 6), keyDelete(), keyFile(nil, 7)},
	"a delay that the API shows":              {opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", delays, during(10, 11)), look(onK, delayed, during(12, 13)), look(onK, during(511, 512))},
	"a lock of the API outlives the key":      {acquire("A/h", onK, token(1)), keySet("x"), keyDelete(), keyLock("B", "y", refused)},
	"an end of a lock of the API":             {opened("A", deletes), acquire("A/h", onK, token(1)), keySet("x"), closed("A"), keyGet(7, shows("x", 5, 5, 0, ""))},
	"checks in transactions":                  {keyTxnOf(lockapi.KeyCheckNotExists), keyTxnOf(lockapi.KeyGet, refused), keyTxnOf(lockapi.KeyCheckSession, refused)},
	"a session that a call finds ended":       {opened("A"), keyLock("A", "x", goneAnswer, during(1001, 1002))},
	"a blocking query that ends with the key": {keySet("x"), keyGet(9, stale, after(5), shows("x", 5, 5, 0, ""))},
}

// keyTxnOf makes one operation on /d/k in a transaction, which shows the key.
func keyTxnOf(verb lockapi.KeyVerb, edits ...edit) Attempt {
	return keysCalled(KeyChange, lockapi.KeyOperation{Verb: verb}, edits...)
}

// keyFile reads the key's file through the API.
func keyFile(f *lockapi.File, asOf uint64) Attempt {
	a := get(f, asOf, onK)
	a.Files.Then[0].Get.Path = "/d/k"
	return a
}

func delayed(a *Attempt)      { a.State = lockapi.StateDelayed }
func after(index uint64) edit { return func(a *Attempt) { a.Keys.After = index } }

const notPossible = "not possible for the keys of one cell"

// brokenKeys are records that no door may produce, with a part of the report.
var brokenKeys = map[string]struct {
	record []Attempt
	says   string
}{
	"two holders":                         {[]Attempt{keyLock("A", "x"), keyLock("B", "y")}, notPossible},
	"refused though free":                 {[]Attempt{keySet("x"), keyLock("A", "y", refused)}, notPossible},
	"a stale value":                       {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyGet(6, shows("x", 5, 5, 0, ""))}, notPossible},
	"a missing key":                       {[]Attempt{keySet("x"), keyGet(5)}, notPossible},
	"a read from the future":              {[]Attempt{keyGet(5, shows("x", 5, 5, 0, "")), keySet("x")}, notPossible},
	"a lost update":                       {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyCAS(5, "z")}, notPossible},
	"a cas of a new key that exists":      {[]Attempt{keySet("x"), keyCAS(0, "y")}, notPossible},
	"a cas refused without a reason":      {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keyCAS(5, "y", refused)}, notPossible},
	"a refusal with an effect":            {[]Attempt{keySet("x"), keyCAS(99, "y", refused), keyGet(9, shows("y", 5, 9, 0, ""))}, notPossible},
	"a delete without an effect":          {[]Attempt{keySet("x"), keyDelete(), keyGet(6, shows("x", 5, 5, 0, ""))}, notPossible},
	"no effect reported, but there was":   {[]Attempt{keySet("x", came(NoEffect)), keyGet(6, shows("x", 5, 5, 0, ""))}, notPossible},
	"a release by another session":        {[]Attempt{keyLock("A", "x"), keyUnlock("B", "y")}, notPossible},
	"a release that is lost":              {[]Attempt{keyLock("A", "x"), keyUnlock("A", "y"), keyGet(6, shows("y", 5, 6, 1, "A"))}, notPossible},
	"a hold that a write ends":            {[]Attempt{keyLock("A", "x"), keySet("y"), keyLock("B", "z")}, notPossible},
	"a delete that leaves the lock":       {[]Attempt{keyLock("A", "x"), keyDelete(), keyLock("B", "y", refused)}, notPossible},
	"a LockIndex that stands":             {[]Attempt{keyLock("A", "x"), keyUnlock("A", "y"), keyLock("B", "z"), keyGet(9, shows("z", 5, 9, 1, "B"))}, notPossible},
	"a LockIndex that survives a delete":  {[]Attempt{keyLock("A", "x"), keyDelete(), keyLock("B", "y"), keyGet(9, shows("y", 9, 9, 2, "B"))}, notPossible},
	"flags that change":                   {[]Attempt{keySet("x", func(a *Attempt) { a.Keys.Operations[0].Flags = 3 }), keyGet(5, shows("x", 5, 5, 0, ""))}, notPossible},
	"a write that keeps its ModifyIndex":  {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyGet(6, shows("y", 5, 5, 0, ""))}, notPossible},
	"a ModifyIndex below what was shown":  {[]Attempt{keyGet(7), keySet("x"), keyGet(8, shows("x", 6, 6, 0, ""))}, notPossible},
	"a ModifyIndex above what was shown":  {[]Attempt{keySet("x"), keyGet(7, ofM), keyGet(9, shows("x", 8, 8, 0, ""))}, notPossible},
	"a CreateIndex that changes":          {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyGet(7, shows("y", 7, 7, 0, ""))}, notPossible},
	"an end that leaves the hold":         {[]Attempt{opened("A"), keyLock("A", "x", during(1, 2)), closed("A", during(3, 4)), keyGet(5, shows("x", 4, 4, 1, "A"))}, notPossible},
	"an end that keeps the ModifyIndex":   {[]Attempt{opened("A"), keyLock("A", "x", during(1, 2)), keyGet(4, shows("x", 4, 4, 1, "A")), closed("A"), keyGet(5, shows("x", 4, 4, 1, ""))}, notPossible},
	"an early expiry":                     {[]Attempt{opened("A"), keyLock("A", "x", during(1, 2)), keyLock("B", "y", during(998, 999))}, notPossible},
	"an early expiry, reported":           {[]Attempt{opened("A"), keyLock("A", "x", goneAnswer, during(998, 999))}, "before its lease ended"},
	"a key that should be deleted":        {[]Attempt{opened("A", deletes), keyLock("A", "x", during(1, 2)), closed("A", during(3, 4)), keyGet(5, shows("x", 4, 5, 1, ""))}, notPossible},
	"a key deleted with a release":        {[]Attempt{opened("A"), keyLock("A", "x", during(1, 2)), closed("A", during(3, 4)), keyGet(5)}, notPossible},
	"a lock-delay ignored":                {[]Attempt{opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", delays, during(10, 11)), keyLock("B", "y", during(508, 509))}, notPossible},
	"a lock-delay after the API's close":  {[]Attempt{opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", during(10, 11)), keyLock("B", "y", refused, during(12, 13))}, notPossible},
	"a lock for a session that has ended": {[]Attempt{opened("A"), closed("A"), keyLock("A", "x")}, notPossible},
	"a transaction that should fail":      {[]Attempt{keySet("x"), keyTxn(4, txnShows(5, 6, 8))}, notPossible},
	"a transaction made in part":          {[]Attempt{keyLock("B", "x"), keyTxn(0, failing(0, 2)), keyGet(7, ofM, shows("m", 6, 6, 0, ""), func(a *Attempt) { a.Keys.Found[0].Path = "/d/m" })}, notPossible},
	"a transaction with a wrong failure":  {[]Attempt{keySet("x"), keyTxn(99, failing(1))}, notPossible},
	"a transaction with equal revisions":  {[]Attempt{keySet("x"), keyTxn(5, txnShows(5, 6, 6))}, notPossible},
	"a list without a key":                {[]Attempt{keySet("x"), keySet("m", ofM), keyTree(7, shows("x", 5, 5, 0, ""))}, notPossible},
	"a lock beside one of the API":        {[]Attempt{acquire("A/h", onK, token(1)), keyLock("B", "x")}, notPossible},
	"a lock of the API beside one":        {[]Attempt{keyLock("A", "x"), acquire("B/h", onK, token(1))}, notPossible},
	"a hold that the API does not show":   {[]Attempt{keyLock("A", "x"), look(onK)}, notPossible},
	"a release of the API without a hold": {[]Attempt{keyLock("A", "x"), free("A/h", onK)}, notPossible},
	"another content in the API":          {[]Attempt{keySet("x"), keyFile(stat("/d/k", "y", 5, 5, 1), 6)}, notPossible},
	"no file in the API":                  {[]Attempt{keySet("x"), keyFile(nil, 6)}, notPossible},
	"an index of the API that goes back":  {[]Attempt{keyGet(9, ofM), keyFile(nil, 8)}, notPossible},
	"another holder in the API":           {[]Attempt{keyLock("A", "x"), look(onK, sees("B/", 1, ex))}, notPossible},
	"a delay without an end":              {[]Attempt{keyLock("A", "x"), keyUnlock("A", "y"), look(onK, delayed)}, notPossible},
	"a delay that the API does not show": {[]Attempt{opened("A", delaying(500)), keyLock("A", "x", during(1, 2)), closed("A", delays, during(10, 11)),
		look(onK, during(12, 13))}, notPossible},
	"a delete that ends a lock of the API":   {[]Attempt{acquire("A/h", onK, token(1)), keySet("x"), keyDelete(), keyLock("B", "y")}, notPossible},
	"an end of the API's that changes a key": {[]Attempt{opened("A"), acquire("A/h", onK, token(1)), keySet("x"), closed("A"), keyGet(8, shows("x", 5, 8, 0, ""))}, notPossible},
	"a cas that finds no key":                {[]Attempt{keyCAS(4, "x")}, notPossible},
	"a check of a session without a lock":    {[]Attempt{keySet("x"), keyTxnOf(lockapi.KeyCheckSession, func(a *Attempt) { a.Keys.Operations[0].Session = "A" })}, notPossible},
	"a check that a key is missing":          {[]Attempt{keySet("x"), keyTxnOf(lockapi.KeyCheckNotExists)}, notPossible},
	"a get of a missing key":                 {[]Attempt{keyTxnOf(lockapi.KeyGet)}, notPossible},
	"contents that change places":            {[]Attempt{keySet("x"), keyGet(5, shows("x", 5, 5, 0, "")), keySet("y"), keyGet(7, shows("x", 5, 7, 0, ""))}, notPossible},
	"a creation before its revision":         {[]Attempt{keySet("x"), keyGet(6, shows("x", 5, 6, 0, ""))}, notPossible},
	"a change that looks like a creation":    {[]Attempt{keySet("x"), keySet("y"), keyGet(6, shows("y", 6, 6, 0, ""))}, notPossible},
	"an end that does not count as a change": {[]Attempt{opened("A"), keyLock("A", "x", during(1, 2)), keyGet(4, shows("x", 4, 4, 1, "A"), during(3, 4)),
		closed("A", during(5, 6)), keyCAS(4, "z", during(9, 10))}, notPossible},
	"an index below the revision of a key": {[]Attempt{keySet("x"), keyGet(4, shows("x", 5, 5, 0, ""))}, notPossible},
	"an index that goes back":              {[]Attempt{keyGet(9), keyGet(8)}, "after 9 had been shown"},
	"an answer outside the door's":         {[]Attempt{keySet("x", came(Wrong))}, "outside the contract"},
}

func TestRightKeys(t *testing.T) {
	for name, record := range rightKeys {
		if v := Check(dated(record), time.Minute); len(v.Problems) > 0 || v.Keys != 1 {
			t.Errorf("%s: %q in %d directories", name, v.Problems, v.Keys)
		}
	}
}

// TestBrokenKeys: each rule of the model refuses a record that breaks it.
func TestBrokenKeys(t *testing.T) {
	for name, c := range brokenKeys {
		v := Check(dated(c.record), time.Minute)
		if all := strings.Join(v.Problems, "; "); !strings.Contains(all, c.says) {
			t.Errorf("%s: found %q, want %q", name, all, c.says)
		}
	}
}

// TestBlockingQueryThatMisses: a query that waits on while its replica shows the
// change is reported. One at another replica, or of a replica that has shown
// it a few times only, is not.
func TestBlockingQueryThatMisses(t *testing.T) {
	for name, c := range map[string]struct {
		reads int
		host  string
		want  bool
	}{"missed": {30, "r1", true}, "soon enough": {10, "r1", false}, "elsewhere": {30, "r2", false}} {
		record := []Attempt{keySet("x", during(1, 2)), keyGet(0, stale, after(5), unknown, during(0, 1000))}
		for i := range c.reads {
			record = append(record, keyGet(9, stale, shows("x", 9, 9, 0, ""), during(int64(10+4*i), int64(11+4*i)), func(a *Attempt) { a.Host = c.host }))
		}
		v := Check(record, time.Minute)
		if missed := strings.Contains(strings.Join(v.Problems, "; "), "missed a change"); missed != c.want {
			t.Errorf("%s: %q", name, v.Problems)
		}
	}
}

// TestKeysAgreeWithEvents: an answer of the door, stale or not, shows the state
// at its index, and each write through the door was requested.
func TestKeysAgreeWithEvents(t *testing.T) {
	x, y := stat("/d/k", "x", 2, 2, 1), stat("/d/k", "x", 4, 2, 2)
	lock := func(typ lockapi.EventType, revision uint64) lockapi.CellEvent {
		e := lockEvent(typ, "A", 1, revision)
		e.Path = "/d/k"
		return e
	}
	told := []Told{{Watcher: "w", Events: []lockapi.CellEvent{lock(lockapi.EventLockAcquired, 1), fileEvent(lockapi.EventFileCreated, x, 2),
		lock(lockapi.EventLockReleased, 3), fileEvent(lockapi.EventFileChanged, y, 4), fileEvent(lockapi.EventFileDeleted, y, 5)}}}
	told[0].Events[4].Reason = lockapi.ReasonSessionEnded
	for name, c := range map[string]struct {
		record []Attempt
		says   string
	}{
		"as it was": {[]Attempt{keyLock("A", "x"), keyGet(1), keyGet(2, shows("x", 2, 2, 1, "A")), keyGet(4, stale, shows("x", 2, 4, 1, "")), keyGet(5)}, ""},
		"too old":   {[]Attempt{keyLock("A", "x"), keyGet(4, stale, shows("x", 2, 2, 1, "A"))}, "shows what the events do not"},
		"deleted":   {[]Attempt{keyLock("A", "x"), keyGet(5, stale, shows("x", 2, 4, 1, ""))}, "shows what the events do not"},
		"missing":   {[]Attempt{keyLock("A", "x"), keyTree(4, stale)}, "shows what the events do not"},
		"too new":   {[]Attempt{keyLock("A", "x"), keyGet(3, stale, shows("x", 2, 4, 1, ""))}, "shows what the events do not"},
		"ahead":     {[]Attempt{keyLock("A", "x"), keyGet(6), keyGet(5)}, "the events end at 5"},
		"unasked":   {[]Attempt{keyLock("A", "y"), keyGet(1)}, "was not requested"},
	} {
		problems := strings.Join(CheckEvents(dated(c.record), told), "; ")
		if (c.says == "") != (problems == "") || !strings.Contains(problems, c.says) {
			t.Errorf("%s: %q, want %q", name, problems, c.says)
		}
	}
}

// TestRecorderAtTheDoor: requests and answers of the door are recorded as calls
// for keys and sessions.
func TestRecorderAtTheDoor(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		answer               string
		want                 string
	}{
		{"PUT", "/v1/kv/d/k?acquire=A", "x", 200, "true", `key change /d/k session=A lock k "x": done`},
		{"PUT", "/v1/kv/d/k?acquire=A", "x", 200, "false", `key change /d/k session=A lock k "x": refused`},
		{"PUT", "/v1/kv/d/k?acquire=A", "x", 500, `invalid session "A"`, `key change /d/k session=A lock k "x": gone`},
		{"PUT", "/v1/kv/d/k?release=A", "x", 500, "No cluster leader: why", `key change /d/k session=A unlock k "x": no effect (No cluster leader: why)`},
		{"PUT", "/v1/kv/d/k?cas=4", "x", 500, "the answer was lost", `key change /d/k cas k "x": unknown (the answer was lost)`},
		{"PUT", "/v1/kv/d/k", "x", 400, "bad", `key change /d/k set k "x": wrong (unexpected refusal: 400 Bad Request bad)`},
		{"DELETE", "/v1/kv/d/k?cas=4", "", 200, "true", `key change /d/k delete-cas k "": done`},
		{"GET", "/v1/kv/d/k", "", 404, "", `key read /d/k get-or-empty k "": done`},
		{"GET", "/v1/kv/d/?recurse&stale", "", 200, `[{"LockIndex":1,"Key":"d/k","Flags":2,"Value":"eA==","Session":"A","CreateIndex":3,"ModifyIndex":4}]`,
			`key read /d/ get-tree  "", → "x" locks=1 session=A at 4, stale: done`},
		{"PUT", "/v1/txn", `[{"KV":{"Verb":"set","Key":"d/k","Value":"eA=="}}]`, 409, `{"Errors":[{"OpIndex":0}]}`,
			`key change /d/k set k "x": refused ({"Errors":[{"OpIndex":0}]})`},
		{"PUT", "/v1/session/create", `{"TTL":"10s","LockDelay":"1s","Behavior":"delete"}`, 200, `{"ID":"A"}`, `open  session=A: done 20000 1000 true`},
		{"PUT", "/v1/session/renew/A", "", 200, `[{"ID":"A","TTL":"10s","LockDelay":15000000000}]`, `keepalive  session=A: done 20000 0 false`},
		{"PUT", "/v1/session/renew/A", "", 404, "not found", `keepalive  session=A: gone`},
		{"PUT", "/v1/session/destroy/A", "", 200, "true", `close  session=A: done`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "9")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		req, err := http.NewRequest(c.method, server.URL+c.target, strings.NewReader(c.body))
		must(t, err)
		r := NewRecorder()
		resp, err := r.Transport("c", nil).RoundTrip(req)
		must(t, err)
		resp.Body.Close()
		server.Close()
		a := r.Attempts()[0]
		_, got, _ := strings.Cut(a.String(), " c ")
		if a.TTLMS > 0 {
			got += fmt.Sprint(" ", a.TTLMS, " ", a.DelayMS, " ", a.Deletes)
		}
		if got != c.want || a.Kind == KeyRead && a.Keys.Index != 9 {
			t.Errorf("%s %s: recorded %s, want %s", c.method, c.target, got, c.want)
		}
	}
}
