package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// The records below are about the sessions A and B and the files /f and /g, in
// the same form as for locks. The content of a write is a string such as "x".

func ptr[T any](v T) *T { return &v }

// stat returns a file at a revision; generation 1 means that this revision
// created it.
func stat(path, content string, revision, instance, generation uint64) *lockapi.File {
	f := &lockapi.File{}
	f.Path, f.SHA256, f.Revision, f.Instance, f.Generation = path, sum([]byte(content)), revision, instance, generation
	return f
}

func owner(session string, f *lockapi.File) *lockapi.File { f.Session = session; return f }

func fileCall(kind Kind, session string, op lockapi.Operation, result *lockapi.OperationResult, revision uint64, edits []edit) Attempt {
	a := Attempt{Client: session, Kind: kind, Outcome: Done, Session: session, Files: &FileCall{}}
	a.Files.Then, a.Path = []lockapi.Operation{op}, pathOf(&op)
	if result != nil {
		a.Files.Result = &lockapi.TransactionResult{Succeeded: true, Revision: revision, Results: []lockapi.OperationResult{*result}}
	}
	for _, e := range edits {
		e(&a)
	}
	if a.Outcome != Done {
		a.Files.Result = nil
	}
	return a
}

func putOf(content, path string) *lockapi.WriteOperation {
	return &lockapi.WriteOperation{Path: path, Content: &content}
}

// put writes f's path, or /f if f is nil.
func put(content string, f *lockapi.File, edits ...edit) Attempt {
	path, revision := "/f", uint64(0)
	if f != nil {
		path, revision = f.Path, f.Revision
	}
	return fileCall(Write, "A", lockapi.Operation{Put: putOf(content, path)}, &lockapi.OperationResult{File: f}, revision, edits)
}

func get(f *lockapi.File, asOf uint64, edits ...edit) Attempt {
	return fileCall(Get, "", lockapi.Operation{Get: &lockapi.FileOperation{Path: "/f"}}, &lockapi.OperationResult{File: f}, asOf, edits)
}

func del(revision uint64, edits ...edit) Attempt {
	return fileCall(Delete, "A", lockapi.Operation{Delete: &lockapi.FileOperation{Path: "/f"}},
		&lockapi.OperationResult{Deleted: &lockapi.FileDeleted{Deleted: revision > 0, Revision: revision}}, revision, edits)
}

func delOf(revision uint64, path string) Attempt {
	return del(revision, func(a *Attempt) { a.Path = path; a.Files.Then[0].Delete.Path = path })
}

func sequential(content string, revision uint64, edits ...edit) Attempt {
	return fileCall(Write, "A", lockapi.Operation{CreateSequential: putOf(content, "/q/")},
		&lockapi.OperationResult{File: stat(fmt.Sprintf("/q/%016d", revision), content, revision, revision, 1)}, revision, edits)
}

func txn(session string, result *lockapi.TransactionResult, then []lockapi.Operation, edits ...edit) Attempt {
	a := fileCall(Transact, session, then[0], nil, 0, nil)
	a.Files.Then, a.Files.Result = then, result
	for _, e := range edits {
		e(&a)
	}
	if a.Outcome != Done {
		a.Files.Result = nil
	}
	return a
}

func both(x, y string) []lockapi.Operation {
	return []lockapi.Operation{{Put: putOf(x, "/f")}, {Put: putOf(y, "/g")}}
}

func results(revision uint64, all ...lockapi.OperationResult) *lockapi.TransactionResult {
	return &lockapi.TransactionResult{Succeeded: true, Revision: revision, Results: all}
}

func wrote(f *lockapi.File) lockapi.OperationResult { return lockapi.OperationResult{File: f} }

func take(session string, token uint64, edits ...edit) Attempt {
	return txn(session, results(token, lockapi.OperationResult{Grant: &lockapi.Grant{Path: "/k", Session: session, Token: token}}),
		[]lockapi.Operation{{Acquire: &lockapi.AcquireOperation{Path: "/k"}}}, edits...)
}

// share takes /k in shared mode.
func share(session string, token uint64, edits ...edit) Attempt {
	return take(session, token, append([]edit{func(a *Attempt) {
		a.Files.Then[0].Acquire.Mode = lockapi.Shared
		if a.Files.Result != nil {
			a.Files.Result.Results[0].Grant.Mode = lockapi.Shared
		}
	}}, edits...)...)
}

func sharing(token uint64) edit {
	return func(a *Attempt) { a.Files.Guards = []string{fmt.Sprintf("shared:%d:/k", token)} }
}

func giveBack(session string, token, revision uint64, edits ...edit) Attempt {
	return txn(session, results(revision, lockapi.OperationResult{Released: &lockapi.Released{Released: true}}),
		[]lockapi.Operation{{Release: &lockapi.ReleaseOperation{Path: "/k", Token: token}}}, edits...)
}

// list returns a list of the files below /d/; empty deletes them.
func list(asOf uint64, files []*lockapi.File, edits ...edit) Attempt {
	a := below(List, asOf)
	for _, f := range files {
		a.Files.Listed = append(a.Files.Listed, *f)
	}
	for _, e := range edits {
		e(&a)
	}
	return a
}

func empty(n int, revision uint64, edits ...edit) Attempt {
	a := below(DeleteBelow, revision)
	a.Session, a.Files.Deleted = "A", n
	for _, e := range edits {
		e(&a)
	}
	if a.Outcome != Done {
		a.Files.Result = nil
	}
	return a
}

func below(kind Kind, revision uint64) Attempt {
	return Attempt{Client: "B", Kind: kind, Outcome: Done, Path: "/d/", Files: &FileCall{Below: "/d/", Result: &lockapi.TransactionResult{Succeeded: true, Revision: revision}}}
}

var (
	da1, db2 = stat("/d/a", "x", 1, 1, 1), stat("/d/b", "y", 2, 2, 1)
	da5      = stat("/d/a", "z", 5, 5, 1)
	two      = []*lockapi.File{da1, db2}
)

func key(k string) edit   { return func(a *Attempt) { a.Key = k } }
func match(r uint64) edit { return func(a *Attempt) { a.Files.Match = r } }
func absent(a *Attempt)   { a.Files.Absent = true }
func guard(token uint64) edit {
	return func(a *Attempt) { a.Files.Guards = []string{fmt.Sprintf("exclusive:%d:/k", token)} }
}
func ephemeral(a *Attempt) { a.Files.Then[0].Put.Ephemeral = ptr(true) }
func stopped(f *lockapi.File) edit {
	return func(a *Attempt) { a.Outcome, a.Files.Current = Refused, f }
}

var (
	x1, y2 = stat("/f", "x", 1, 1, 1), stat("/f", "y", 2, 1, 2)
	g2     = stat("/g", "y", 2, 2, 1)
)

var notHeld = came(NotHeld)

// rightFiles are records that a cell's files may produce.
var rightFiles = map[string][]Attempt{
	"written, read, deleted":         {get(nil, 0), put("x", x1), get(x1, 1), put("y", y2, match(1)), get(y2, 2), del(3), get(nil, 3), del(0)},
	"at the same time":               {put("y", y2, during(0, 10)), put("x", x1, during(0, 10)), get(x1, 1, during(5, 6))},
	"refused":                        {put("x", x1), put("y", nil, absent, stopped(x1)), put("z", nil, match(9), stopped(x1)), del(0, match(9), stopped(x1))},
	"a lost answer with an effect":   {put("x", nil, came(Unknown)), get(nil, 0), get(x1, 1)},
	"a lost answer without one":      {put("x", nil, came(Unknown)), put("y", stat("/f", "y", 1, 1, 1))},
	"a lost answer that shows later": {put("x", nil, came(Unknown)), put("y", stat("/f", "y", 5, 3, 2))},
	"a lost deletion":                {put("x", x1), del(0, came(Unknown)), get(nil, 2)},
	"a write sent again":             {put("x", nil, key("k"), came(Unknown)), put("x", x1, key("k")), put("x", x1, key("k"))},
	"sent again, it was late":        {put("x", nil, key("k"), came(Unknown), during(0, 9)), get(nil, 0, during(2, 3)), put("x", x1, key("k"), during(4, 8))},
	"sequential":                     {sequential("x", 4), sequential("y", 7), sequential("z", 9, came(Unknown))},
	"two at once":                    {txn("A", results(2, wrote(x1), wrote(g2)), both("x", "y")), get(x1, 2)},
	"two at once, lost":              {txn("A", nil, both("x", "y"), came(Unknown)), get(x1, 2)},
	"under a lock":                   {take("A", 1), put("x", stat("/f", "x", 3, 3, 1), guard(1)), giveBack("A", 1, 4), put("y", nil, guard(1), notHeld)},
	"under a lock outside the group": {put("x", x1, guard(7)), put("y", nil, guard(7), notHeld)},
	"a lock that is taken":           {take("A", 1), take("B", 0, stopped(nil)), giveBack("A", 1, 4), take("B", 5)},
	"a lock that is shared":          {share("A", 1), share("B", 2), take("C", 0, stopped(nil)), put("x", stat("/f", "x", 3, 3, 1), sharing(1)), giveBack("A", 1, 4), take("C", 0, stopped(nil)), giveBack("B", 2, 5), take("C", 6)},
	"shared, and asked for again":    {share("A", 1), share("B", 2), share("A", 1, func(a *Attempt) { a.Files.Result.Revision = 2 })},
	"taken by a lost transaction":    {take("A", 0, came(Unknown), key("1")), acquire("B/1", on("/m"), token(3)), take("A", 1, key("2")), put("x", stat("/f", "x", 4, 4, 1), guard(1)), giveBack("A", 1, 5), put("y", nil, guard(1), notHeld)},
	"taken already":                  {take("A", 1, key("1")), acquire("B/1", on("/m"), token(3)), take("A", 1, key("2"))},
	"ephemeral":                      {open("A", ttl(1000)), put("x", owner("A", stat("/f", "x", 1, 1, 1)), ephemeral), closed("A"), get(nil, 2), put("y", nil, goneAnswer)},
	"listed, emptied":                {list(0, nil), put("x", da1), list(1, two[:1]), put("y", db2), list(2, two), empty(2, 4), list(4, nil), empty(0, 0), put("z", da5)},
	"listed while it is written":     {put("x", da1), put("y", db2, during(100, 200)), list(1, two[:1], during(150, 160)), list(2, two, during(170, 180))},
	"a lost emptying":                {put("x", da1), put("y", db2), empty(0, 0, came(Unknown)), list(4, nil), put("z", da5)},
	"a lost emptying without effect": {put("x", da1), put("y", db2), empty(0, 0, came(Unknown)), list(2, two)},
	"an emptying sent again":         {put("x", da1), put("y", db2), empty(0, 0, key("k"), came(Unknown)), empty(2, 4, key("k"))},
	"a lock ends with its session":   {open("A", ttl(1000)), take("A", 1), closed("A"), take("B", 3)},
}

// brokenFiles are records that no cell may produce.
var brokenFiles = map[string]struct {
	record []Attempt
	says   string
}{
	"a stale read":                          {[]Attempt{put("x", x1), get(nil, 1)}, "not possible for one cell's files"},
	"a read of an old revision":             {[]Attempt{put("x", x1), put("y", y2), get(x1, 2)}, "not possible for one cell's files"},
	"a read from before":                    {[]Attempt{put("x", stat("/f", "x", 5, 5, 1)), get(nil, 3, func(a *Attempt) { a.Path = "/h"; a.Files.Then[0].Get.Path = "/h" })}, "came after 5 had been reported"},
	"a lost write":                          {[]Attempt{put("x", x1), put("y", stat("/f", "y", 2, 2, 1))}, "not possible for one cell's files"},
	"a generation is left out":              {[]Attempt{put("x", x1), put("y", stat("/f", "y", 2, 1, 3))}, "not possible for one cell's files"},
	"written despite its condition":         {[]Attempt{put("x", x1), put("y", y2, absent)}, "not possible for one cell's files"},
	"written despite its revision":          {[]Attempt{put("x", x1), put("y", y2, match(9))}, "not possible for one cell's files"},
	"refused without reason":                {[]Attempt{put("x", x1), put("y", nil, match(1), stopped(x1))}, "not possible for one cell's files"},
	"refused with another file":             {[]Attempt{put("x", x1), put("y", nil, absent, stopped(nil))}, "not possible for one cell's files"},
	"deleted a missing file":                {[]Attempt{del(4)}, "not possible for one cell's files"},
	"no effect reported, but there was one": {[]Attempt{put("x", nil, came(NoEffect)), get(x1, 1)}, "not possible for one cell's files"},
	"seen before its request":               {[]Attempt{put("x", nil, key("k"), came(NoEffect)), get(x1, 1), put("x", nil, key("k"), came(Unknown))}, "not possible for one cell's files"},
	"written twice":                         {[]Attempt{put("x", nil, key("k"), came(Unknown)), put("x", stat("/f", "x", 2, 1, 2), key("k")), get(x1, 1, during(0, 3))}, "one write has the revisions"},
	"one key, two answers":                  {[]Attempt{put("x", x1, key("k")), put("x", nil, key("k"), stopped(nil))}, "one key has two answers"},
	"one revision, two changes":             {[]Attempt{put("x", x1, during(0, 9)), put("y", stat("/g", "y", 1, 1, 1), during(0, 9))}, "belongs to two changes"},
	"a revision that does not grow":         {[]Attempt{put("x", stat("/g", "x", 5, 5, 1)), put("y", stat("/f", "y", 4, 4, 1))}, "came after 5 had been reported"},
	"a name that is not the number":         {[]Attempt{sequential("x", 4, func(a *Attempt) { a.Files.Result.Results[0].File.Path = "/q/0000000000000005" })}, "not possible for one cell's files"},
	"names that do not grow":                {[]Attempt{sequential("x", 7), sequential("y", 4)}, "came after 7 had been reported"},
	"half a transaction":                    {[]Attempt{txn("A", nil, both("x", "y"), came(Unknown)), get(x1, 2), txn("B", results(2, lockapi.OperationResult{}), []lockapi.Operation{{Get: &lockapi.FileOperation{Path: "/g"}}})}, "not possible for one cell's files"},
	"a refused transaction's effect":        {[]Attempt{take("B", 1), txn("A", nil, append(both("x", "y"), lockapi.Operation{Acquire: &lockapi.AcquireOperation{Path: "/k"}}), came(Refused), func(a *Attempt) { a.Files.Operation = 2 }), get(x1, 2)}, "not possible for one cell's files"},
	"a late holder's write":                 {[]Attempt{take("A", 1), giveBack("A", 1, 2), put("x", stat("/f", "x", 3, 3, 1), guard(1))}, "not possible for one cell's files"},
	"a holder's write refused":              {[]Attempt{take("A", 1), put("x", nil, guard(1), notHeld)}, "not possible for one cell's files"},
	"two take the same lock":                {[]Attempt{take("A", 1), take("B", 2)}, "not possible for one cell's files"},
	"shared beside an exclusive one":        {[]Attempt{take("A", 1), share("B", 2)}, "not possible for one cell's files"},
	"exclusive beside shared ones":          {[]Attempt{share("A", 1), share("B", 2), giveBack("A", 1, 3), take("C", 4)}, "not possible for one cell's files"},
	"shared, refused without reason":        {[]Attempt{share("A", 1), share("B", 0, stopped(nil))}, "not possible for one cell's files"},
	"a sharer's late write":                 {[]Attempt{share("A", 1), share("B", 2), giveBack("A", 1, 3), put("x", stat("/f", "x", 4, 4, 1), sharing(1))}, "not possible for one cell's files"},
	"tokens of transactions that fall":      {[]Attempt{acquire("B/1", on("/m"), token(9)), take("A", 1)}, "was granted after"},
	"a token granted again":                 {[]Attempt{take("A", 1, key("1")), giveBack("A", 1, 2), acquire("B/1", on("/m"), token(3)), take("A", 1, key("2"))}, "was granted after"},
	"taken twice, with two tokens":          {[]Attempt{take("A", 0, came(Unknown), key("1")), take("A", 1, key("2")), take("A", 2, key("3"))}, "not possible for one cell's files"},
	"ephemeral, and outlives":               {[]Attempt{open("A", ttl(1000)), put("x", owner("A", stat("/f", "x", 1, 1, 1)), ephemeral), closed("A"), get(owner("A", stat("/f", "x", 1, 1, 1)), 2)}, "not possible for one cell's files"},
	"ephemeral, and deleted early":          {[]Attempt{open("A", ttl(1000), during(0, 1)), put("x", owner("A", stat("/f", "x", 1, 1, 1)), ephemeral, during(2, 3)), get(nil, 2, during(900, 901))}, "not possible for one cell's files"},
	"written by an ended session":           {[]Attempt{open("A", ttl(1000)), closed("A"), put("x", x1)}, "not possible for one cell's files"},
	"a list without a file":                 {[]Attempt{put("x", da1), put("y", db2), list(2, two[1:])}, "not possible for one cell's files"},
	"a list of two moments":                 {[]Attempt{put("x", da1), put("y", db2), delOf(3, "/d/a"), put("w", stat("/d/c", "w", 4, 4, 1)), list(4, []*lockapi.File{da1, db2, stat("/d/c", "w", 4, 4, 1)})}, "not possible for one cell's files"},
	"a list that shows a torn write":        {[]Attempt{put("x", da1, during(0, 99)), put("y", db2, during(0, 99)), list(2, two[1:], during(10, 20)), list(2, two[:1], during(30, 40))}, "not possible for one cell's files"},
	"half of a directory emptied":           {[]Attempt{put("x", da1), put("y", db2), empty(0, 0, came(Unknown)), list(3, two[1:])}, "not possible for one cell's files"},
	"emptied, and one file is left":         {[]Attempt{put("x", da1), put("y", db2), empty(2, 4), list(4, two[:1])}, "not possible for one cell's files"},
	"emptied of fewer than there were":      {[]Attempt{put("x", da1), put("y", db2), empty(1, 3)}, "not possible for one cell's files"},
	"emptied under too few revisions":       {[]Attempt{put("x", da1), put("y", db2), empty(2, 3)}, "not possible for one cell's files"},
	"emptied twice under one key":           {[]Attempt{put("x", da1), empty(1, 2, key("k")), empty(0, 0, key("k"))}, "one key has two answers"},
	"a condition that did not hold": {[]Attempt{put("x", x1), txn("A", results(2, wrote(y2)), []lockapi.Operation{{Put: putOf("y", "/f")}},
		func(a *Attempt) { a.Files.If = []lockapi.Condition{{File: "/f", Exists: ptr(false)}} })}, "not possible for one cell's files"},
}

func TestRightFiles(t *testing.T) {
	for name, record := range rightFiles {
		if v := Check(dated(record), time.Minute); len(v.Problems) > 0 {
			t.Errorf("%s: %q", name, v.Problems)
		}
	}
}

// TestBrokenFiles: every kind of fault is found by the part of Check meant for
// it.
func TestBrokenFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "picture")
	for name, c := range brokenFiles {
		v := Check(dated(c.record), time.Minute)
		if all := strings.Join(v.Problems, "; "); !strings.Contains(all, c.says) {
			t.Errorf("%s: found %q, want %q", name, all, c.says)
		}
		if _, err := v.WritePictures(func(string) string { return file }); err != nil {
			t.Error(err)
		}
	}
}

// TestGroups: files that a transaction names are checked together, others
// apart.
func TestGroups(t *testing.T) {
	record := dated([]Attempt{txn("A", results(2, wrote(x1), wrote(g2)), both("x", "y")), put("z", stat("/z", "z", 3, 3, 1)), sequential("s", 4), sequential("t", 0, came(Unknown))})
	var all []*Attempt
	for i := range record {
		all = append(all, &record[i])
	}
	var names []string
	for _, g := range groups(all) {
		names = append(names, g.name)
	}
	if fmt.Sprint(names) != "[/f /q/0000000000000004 /z]" {
		t.Errorf("groups %v", names)
	}
}

// TestRecorderOfFiles: calls about files are recorded with their kind and
// outcome.
func TestRecorderOfFiles(t *testing.T) {
	x := sum([]byte("x"))
	written := fmt.Sprintf(`{"path":"/f","revision":7,"instance":7,"generation":1,"size":1,"sha256":%q}`, x)
	problem := func(code lockapi.Code) string { return fmt.Sprintf(`{"code":%q,"current":%s}`, code, written) }
	for _, c := range []struct {
		method, target, body string
		status               int
		answer               string
		kind                 Kind
		want                 Outcome
	}{
		{http.MethodPut, "/v1/files/f?session=S&sequencer=exclusive:1:/k", "x", 201, written, Write, Done},
		{http.MethodPut, "/v1/files/f", "x", 200, written, Write, Wrong},
		{http.MethodPut, "/v1/files/f", "x", 412, problem(lockapi.CodePrecondition), Write, Refused},
		{http.MethodPut, "/v1/files/f?sequencer=exclusive:1:/k", "x", 412, problem(lockapi.CodeNotHeld), Write, NotHeld},
		{http.MethodPut, "/v1/files/f", "x", 412, problem(lockapi.CodeNotHeld), Write, Wrong},
		{http.MethodPost, "/v1/files/q/", "x", 201, written, Write, Done},
		{http.MethodDelete, "/v1/files/f", "", 200, `{"deleted":true,"revision":8}`, Delete, Done},
		{http.MethodDelete, "/v1/files?prefix=/d/&session=S", "", 200, `{"deleted":2,"revision":8}`, DeleteBelow, Done},
		{http.MethodDelete, "/v1/files?prefix=/d/", "", 200, `{"deleted":2}`, DeleteBelow, Wrong},
		{http.MethodGet, "/v1/files?prefix=/d/&limit=1000", "", 200, `{"files":[` + written + `],"dirs":[]}`, List, Done},
		{http.MethodGet, "/v1/files?prefix=/d/", "", 200, `{"files":[],"dirs":[],"next":"/d/x"}`, List, Wrong},
		{http.MethodGet, "/v1/files/f", "", 404, `{"code":"not_found"}`, Get, Done},
		{http.MethodGet, "/v1/files/f", "", 200, "x", Get, Done},
		{http.MethodGet, "/v1/files/f", "", 503, problem(lockapi.CodeOutcomeUnknown), Get, Unknown},
		{http.MethodPost, "/v1/transactions", `{"session":"S","then":[{"get":{"path":"/f"}}]}`, 200, `{"succeeded":true,"revision":8,"results":[null]}`, Transact, Done},
		{http.MethodPost, "/v1/transactions", `{"session":"S","then":[{"get":{"path":"/f"}}]}`, 200, `{"succeeded":true,"revision":8,"results":[]}`, Transact, Wrong},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range map[string]string{"ETag": `"7"`, lockapi.HeaderInstance: "7", lockapi.HeaderGeneration: "1", lockapi.HeaderRevision: "9", "Content-Type": "text/plain"} {
				w.Header().Set(name, value)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.answer)
		}))
		r := NewRecorder()
		req, err := http.NewRequest(c.method, server.URL+c.target, strings.NewReader(c.body))
		must(t, err)
		if _, err := r.Transport("c", nil).RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		server.Close()
		all := r.Attempts()
		if len(all) != 1 || all[0].Kind != c.kind || all[0].Outcome != c.want {
			t.Errorf("%s %s: recorded %v", c.method, c.target, all)
			continue
		}
		for f := range all[0].Files.files() {
			if f.SHA256 != x || f.Revision != 7 {
				t.Errorf("%s %s: shows %+v", c.method, c.target, f)
			}
		}
	}
}
