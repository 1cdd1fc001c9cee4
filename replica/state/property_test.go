package state_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/test/model"
)

// Few names, so that commands affect each other. Some are prefixes of others, and
// handles may have any byte.
var (
	someSessions = []string{"s1", "s2", "s3", "s"}
	somePaths    = []string{"/a", "/a/b", "/ab"}
	someHandles  = []string{"", "x", "x\x00y", "\xff"}
	someLimits   = []int64{0, 2}
)

// someMembers has the entries that tables of members are drawn from.
var someMembers = []state.Member{{ID: "r1", Directory: "a"}, {ID: "r1", Directory: "b", URL: "http://r1"}, {ID: "r2", Directory: "a"}, {ID: "r3"}}

// TestAgainstModel runs random logs through the state and the naive model, which must
// agree on every result, event and read. A second replica gets the same log as bytes
// and is restored from snapshots in between. Its hash must be the same.
func TestAgainstModel(t *testing.T) { rapid.Check(t, againstModel) }

func againstModel(t *rapid.T) {
	r := &run{state: state.New(), replica: state.New(), model: model.New(), term: 1}
	r.start(t)
	t.Repeat(map[string]func(*rapid.T){
		"batch":   r.batch,
		"batch 2": r.batch, // drawn more often than the others
		"batch 3": r.batch,
		"office":  r.openOffice,
		"stray":   r.stray,
		"restore": r.restore,
		"backup":  r.backup,
		"":        r.check,
	})
	r.checkHistory(t)
}

type run struct {
	state, replica *state.State
	model          *model.Model
	term           uint64
	now            int64
	past           []moment
}

// moment is an earlier state with its hash at the time.
type moment struct {
	state *state.State
	hash  [32]byte
}

func (r *run) apply(t *rapid.T, term uint64, b state.Batch) {
	r.past = append(r.past, moment{r.state, r.state.Hash()})
	index := r.state.Index + 1
	next, got := r.state.Apply(index, term, b)
	want := r.model.Apply(index, term, b)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\ngot:  %s\nwant: %s\nbefore:\n%s", batchText(b), outcomeText(got), outcomeText(want), dumpText(r.state))
	}
	r.checkForesight(t, next, b, got)
	checkAnswers(t, b, got)
	r.state = next

	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := state.DecodeBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b, again) {
		t.Fatalf("decoded %+v, encoded %+v", again, b)
	}
	r.replica, _ = r.replica.Apply(index, term, again)
}

// checkAnswers checks that each remembered answer has at most the announced length.
func checkAnswers(t *rapid.T, b state.Batch, got state.Outcome) {
	for _, c := range got.Changes {
		a, ok := c.(state.Answered)
		if !ok {
			continue
		}
		i := slices.IndexFunc(b.Commands, func(c state.Command) bool {
			op, ok := c.Operation.(*state.Transaction)
			return ok && op.Session == a.Session && op.Key == a.Answer.Key && bytes.Equal(op.Digest, a.Answer.Digest)
		})
		if op := b.Commands[i].Operation.(*state.Transaction); a.Answer.Bytes() > op.AnswerAtMost() {
			t.Fatalf("%+v has %d bytes, want at most %d", a.Answer, a.Answer.Bytes(), op.AnswerAtMost())
		}
	}
}

// checkForesight checks that Would predicts the result of a batch of one operation, and
// whether it changes anything apart from the cell's time. The outcome lists the changes.
func (r *run) checkForesight(t *rapid.T, next *state.State, b state.Batch, got state.Outcome) {
	op := theOnly(b)
	if _, opens := op.(*state.OpenOffice); op == nil || opens || !got.Accepted {
		return
	}
	foreseen, changes := r.state.Would(op)
	if changes != (len(got.Changes) > 0) {
		t.Fatalf("%s: predicted a change: %v; changes: %v", batchText(b), changes, got.Changes)
	}
	if !changes {
		if !reflect.DeepEqual(timeless(foreseen), timeless(got.Results[0])) {
			t.Fatalf("%s: predicted %s, got %s", batchText(b), resultText(foreseen), resultText(got.Results[0]))
		}
		if before, after := dumpText(r.state), dumpText(next); before != after && r.state.Office == next.Office {
			t.Fatalf("%s: predicted no change, but it changes\n%s\nto\n%s", batchText(b), before, after)
		}
		return
	}
	if want := withoutDetails(got.Results[0]); !reflect.DeepEqual(withoutDetails(foreseen), want) {
		t.Fatalf("%s: predicted %s, got %s", batchText(b), resultText(foreseen), resultText(got.Results[0]))
	}
}

// timeless returns a result without the current file of a failed transaction, which has
// the command's time if an earlier step of the transaction made it.
func timeless(r state.Result) state.Result {
	if tx, ok := r.(state.TransactionResult); ok && tx.Failure != nil && tx.Failure.Current != nil {
		now := *tx.Failure
		now.Current = nil
		tx.Failure = &now
		return tx
	}
	return r
}

// withoutDetails returns a result without the fields that only the change itself sets.
func withoutDetails(r state.Result) state.Result {
	switch r := r.(type) {
	case state.AcquireResult:
		r.Hold, r.Wait, r.Set = nil, nil, nil
		return r
	case state.SessionResult:
		r.Session = nil
		return r
	case state.TokenResult:
		r.Token = nil
		return r
	case state.KeysResult:
		return state.KeysResult{Verdict: r.Verdict}
	case state.TransactionResult: // if it was tried, then at another time of the cell
		r.Steps = nil
		if r.Verdict == state.Done {
			r.Revision = 0
		}
		return r
	}
	return r
}

// start opens an office and all the sessions.
func (r *run) start(t *rapid.T) {
	r.apply(t, 1, state.Batch{LeaseMS: 2000, Commands: commands(&state.OpenOffice{Master: "r1", Term: 1})})
	b := state.Batch{Epoch: 1, LeaseMS: 2000}
	for _, id := range someSessions {
		b.Commands = append(b.Commands, state.Command{Operation: &state.OpenSession{Session: id, TTLMS: 1000}})
	}
	if rapid.Bool().Draw(t, "with access") {
		b.Commands = append(b.Commands, state.Command{Operation: &state.RaiseLevel{Level: state.Level}})
	}
	r.apply(t, 1, b)
}

func (r *run) openOffice(t *rapid.T) {
	r.term += rapid.Uint64Range(0, 2).Draw(t, "terms")
	made := r.term - rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "late by")
	r.apply(t, r.term, state.Batch{LeaseMS: r.lease(t), Commands: []state.Command{
		{Time: r.clock(t), Operation: &state.OpenOffice{Master: "r1", Term: made}}}})
}

// batch applies a batch of the open office.
func (r *run) batch(t *rapid.T) {
	if !r.model.Office.Open {
		r.openOffice(t)
	} else {
		r.apply(t, r.model.Office.Term, state.Batch{Epoch: r.model.Epoch, LeaseMS: r.lease(t), Commands: r.commands(t)})
	}
}

// stray applies a batch of any epoch and from any term.
func (r *run) stray(t *rapid.T) {
	b := state.Batch{Epoch: rapid.Uint64Range(0, r.model.Epoch+1).Draw(t, "epoch"), LeaseMS: r.lease(t), Commands: r.commands(t)}
	r.apply(t, rapid.Uint64Range(1, r.term+1).Draw(t, "term"), b)
}

func (r *run) restore(t *rapid.T) {
	var data bytes.Buffer
	if err := r.replica.Snapshot(&data); err != nil {
		t.Fatal(err)
	}
	s, err := state.Restore(&data)
	if err != nil {
		t.Fatal(err)
	}
	r.replica = s
}

// backup continues the run as a cell that was restored from a backup.
func (r *run) backup(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "a backup") > 0 {
		return
	}
	floor := rapid.SampledFrom([]uint64{0, r.state.LastToken(), r.state.Revision + 1, r.state.Revision + 1000}).Draw(t, "floor")
	tokens, revision := r.state.LastToken(), r.state.Revision
	r.state, r.replica = r.state.Restored(floor), r.replica.Restored(floor)
	r.model.Restored(floor)
	if n := r.state.LastToken(); n <= tokens || n < floor || r.state.Revision <= revision || r.state.Revision < floor {
		t.Fatalf("floor %d: tokens continue from %d and revisions from %d; they were %d and %d", floor, n, r.state.Revision, tokens, revision)
	}
	r.openOffice(t)
}

func (r *run) lease(t *rapid.T) int64 {
	if rapid.IntRange(0, 19).Draw(t, "odd lease") > 0 {
		return 2000
	}
	return rapid.SampledFrom([]int64{1, 60_000, 0, 60_001, -1}).Draw(t, "lease")
}

func (r *run) clock(t *rapid.T) int64 {
	r.now += rapid.Int64Range(-3, 10).Draw(t, "passes")
	return r.now
}

func (r *run) commands(t *rapid.T) []state.Command {
	var out []state.Command
	for range rapid.IntRange(0, 4).Draw(t, "commands") {
		out = append(out, r.command(t))
	}
	return out
}

func (r *run) command(t *rapid.T) state.Command {
	caller := rapid.SampledFrom([]string{"", "user:a", "user:b"}).Draw(t, "caller")
	return state.Command{Time: r.clock(t), Caller: caller, Operation: rapid.SampledFrom(someOperations).Draw(t, "operation")(r, t)}
}

// someOperations has the functions that draw operations, each as often as its weight.
var someOperations = slices.Concat(
	slices.Repeat([]func(*run, *rapid.T) state.Operation{(*run).acquire}, 18),
	slices.Repeat([]func(*run, *rapid.T) state.Operation{(*run).release, (*run).withdraw, (*run).endDelay, (*run).openSession}, 4),
	slices.Repeat([]func(*run, *rapid.T) state.Operation{(*run).transaction, (*run).changeAccess, (*run).changeKeys}, 10),
	slices.Repeat([]func(*run, *rapid.T) state.Operation{
		func(_ *run, t *rapid.T) state.Operation {
			return &state.ExpireSession{Session: drawSession(t), SilentMS: rapid.Int64Range(0, 2).Draw(t, "silent")}
		}}, 3),
	[]func(*run, *rapid.T) state.Operation{
		func(_ *run, t *rapid.T) state.Operation {
			return &state.CloseSession{Session: drawSession(t), Delays: rapid.Bool().Draw(t, "delays")}
		},
		func(*run, *rapid.T) state.Operation { return &state.CloseOffice{} },
		func(*run, *rapid.T) state.Operation { return &state.OpenOffice{} },
		func(*run, *rapid.T) state.Operation { return &state.MarkState{} },
		(*run).tellSum,
		func(_ *run, t *rapid.T) state.Operation {
			return &state.NoteMembers{Members: rapid.SliceOfN(rapid.SampledFrom(someMembers), 1, 3).Draw(t, "members")}
		},
		func(_ *run, t *rapid.T) state.Operation {
			m := rapid.SampledFrom(someMembers).Draw(t, "member")
			m.URL, m.Stays = rapid.SampledFrom([]string{"", "http://a"}).Draw(t, "url"), rapid.Bool().Draw(t, "stays")
			return &state.PutMember{Member: m}
		},
		func(_ *run, t *rapid.T) state.Operation {
			return &state.RaiseLevel{Level: rapid.Uint64Range(0, state.Level).Draw(t, "level")}
		},
	},
)

func drawSession(t *rapid.T) string { return rapid.SampledFrom(someSessions).Draw(t, "session") }
func drawPath(t *rapid.T) string    { return rapid.SampledFrom(somePaths).Draw(t, "path") }
func drawHandle(t *rapid.T) string  { return rapid.SampledFrom(someHandles).Draw(t, "handle") }

func (r *run) acquire(t *rapid.T) state.Operation {
	op := &state.Acquire{Session: drawSession(t), Path: drawPath(t), Handle: drawHandle(t)}
	op.Mode = rapid.SampledFrom([]state.Mode{state.Exclusive, state.Shared, state.Shared}).Draw(t, "mode")
	if op.Mode == state.Shared {
		op.Limit = rapid.SampledFrom(someLimits).Draw(t, "limit")
	}
	op.Wait = rapid.SampledFrom([]state.WaitFor{state.NoWait, state.WhileConnected, state.WhileConnected, state.Persistent}).Draw(t, "wait")
	op.DelayMS = rapid.SampledFrom([]int64{0, 1000, 5000, 2000}).Draw(t, "delay")
	op.Priority = rapid.SampledFrom([]uint8{0, 0, 0, 1, state.MaxPriority}).Draw(t, "priority")
	if _, w := r.model.HoldOrWait(op.Session, op.Path, op.Handle); w != nil && len(w.Set) > 1 && rapid.Bool().Draw(t, "again") {
		op.Path, op.With, op.Mode, op.Limit = w.Set[0], w.Set[1:], w.Mode, w.Limit
	} else if rapid.IntRange(0, 2).Draw(t, "a set") == 0 {
		op.With = rapid.SliceOfNDistinct(rapid.SampledFrom(somePaths), 1, 2, rapid.ID[string]).Draw(t, "with")
		op.With = slices.DeleteFunc(op.With, func(path string) bool { return path == op.Path })
	}
	if len(op.With) == 0 {
		op.With = nil
	}
	return op
}

func (r *run) release(t *rapid.T) state.Operation {
	op := &state.Release{}
	op.Session, op.Path, op.Handle = r.aim(t)
	if h, _ := r.model.HoldOrWait(op.Session, op.Path, op.Handle); h != nil && rapid.Bool().Draw(t, "by token") {
		op.Token = h.Token - rapid.Uint64Range(0, 1).Draw(t, "old")
	}
	op.Forced = rapid.IntRange(0, 4).Draw(t, "forced") == 0
	return op
}

func (r *run) withdraw(t *rapid.T) state.Operation {
	op := &state.Withdraw{Undo: rapid.Bool().Draw(t, "undo")}
	op.Session, op.Path, op.Handle = r.aim(t)
	h, w := r.model.HoldOrWait(op.Session, op.Path, op.Handle)
	switch right := rapid.IntRange(0, 3).Draw(t, "right number") > 0; {
	case right && w != nil:
		op.Seq = w.Seq
	case right && h != nil:
		op.Seq = h.WaitSeq
	default:
		op.Seq = rapid.Uint64Range(0, r.model.Seq).Draw(t, "seq")
	}
	return op
}

func (r *run) tellSum(t *rapid.T) state.Operation {
	entry := rapid.Uint64Range(0, r.state.Index+2).Draw(t, "entry")
	return &state.ReportSum{Entry: entry, Sum: bytes.Repeat([]byte{byte(entry)}, 32)}
}

func (r *run) endDelay(t *rapid.T) state.Operation {
	op := &state.EndDelay{Path: drawPath(t), ID: rapid.Uint64Range(0, r.model.Seq).Draw(t, "seq")}
	if rapid.Bool().Draw(t, "right number") {
		op.ID = r.model.Lock(op.Path).DelayID
	}
	return op
}

func (r *run) openSession(t *rapid.T) state.Operation {
	op := &state.OpenSession{Session: drawSession(t), Name: "n", TTLMS: rapid.Int64Range(1000, 1002).Draw(t, "ttl")}
	if rapid.Bool().Draw(t, "with meta") {
		op.Meta = map[string]string{"pid": "1", "a": "\xff", "zz": ""}
	}
	if op.Key = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key"); op.Key != "" {
		op.Digest = []byte{rapid.Byte().Draw(t, "digest") % 2}
	}
	return op
}

// aim draws an existing hold or wait, most of the time.
func (r *run) aim(t *rapid.T) (session, path, handle string) {
	var all [][3]string
	for _, path := range slices.Sorted(maps.Keys(r.model.Locks)) {
		for _, h := range r.model.Locks[path].Holders {
			all = append(all, [3]string{h.Session, path, h.Handle})
		}
		for _, w := range r.model.Locks[path].Queue {
			all = append(all, [3]string{w.Session, path, w.Handle})
		}
	}
	if len(all) > 0 && rapid.IntRange(0, 3).Draw(t, "aimed") > 0 {
		at := rapid.SampledFrom(all).Draw(t, "hold or wait")
		return at[0], at[1], at[2]
	}
	return drawSession(t), drawPath(t), drawHandle(t)
}

// check compares all reads with the model, and both replicas with each other.
func (r *run) check(t *rapid.T) {
	s, m := r.state, r.model
	if err := s.Check(); err != nil {
		t.Fatalf("%v\n%s", err, dumpText(s))
	}
	if !s.Equal(r.replica) {
		t.Fatalf("the replicas differ:\n%s\n%s", dumpText(s), dumpText(r.replica))
	}
	equal(t, "members", s.Members, m.Members)
	equal(t, "header", []any{s.Epoch, s.Office, s.Counter, s.Seq, s.Now, s.Level, s.Revision},
		[]any{m.Epoch, m.Office, m.Counter, m.Seq, m.Now, m.Level, m.Revision})
	r.checkSessions(t)
	r.checkFiles(t)
	r.checkAccess(t)
	var paths []string
	holds, waits := 0, 0
	for _, path := range somePaths {
		r.checkPath(t, path)
		l := m.Lock(path)
		holds, waits = holds+len(l.Holders), waits+len(l.Queue)
		if len(l.Holders)+len(l.Queue) > 0 || l.DelayID != 0 {
			paths = append(paths, path)
		}
	}
	equal(t, "counts", []int{s.SessionCount(), s.LockCount(), s.HoldCount(), s.WaitCount()},
		[]int{len(m.Sessions), len(paths), holds, waits})
	for _, prefix := range []string{"", "/", "/a", "/a/", "/ab", "/b"} {
		for _, after := range append(somePaths, "", "/a!", "/z") {
			var got []string
			for l := range s.Locks(prefix, after) {
				got = append(got, l.Path)
			}
			want := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !strings.HasPrefix(p, prefix) || p <= after })
			if !slices.Equal(got, want) {
				t.Fatalf("locks with prefix %q after %q: got %q, want %q", prefix, after, got, want)
			}
		}
	}
}

func (r *run) checkSessions(t *rapid.T) {
	s, m := r.state, r.model
	want := slices.SortedFunc(slices.Values(m.Sessions), func(a, b *state.Session) int { return strings.Compare(a.ID, b.ID) })
	equal(t, "sessions", slices.Collect(s.Sessions("")), want)
	equal(t, "sessions after s1", slices.Collect(s.Sessions("s1")),
		slices.DeleteFunc(want, func(v *state.Session) bool { return v.ID <= "s1" }))
	for _, key := range []string{"k", "l", ""} {
		got, _ := s.SessionByKey(key)
		i := slices.IndexFunc(m.Sessions, func(v *state.Session) bool { return key != "" && v.Key == key })
		if (i < 0) != (got == nil) || i >= 0 && got.ID != m.Sessions[i].ID {
			t.Fatalf("key %q leads to %v, want session %d of the model", key, got, i)
		}
	}
	for _, id := range someSessions {
		var got, want []string
		for h, w := range s.HoldsAndWaits(id) {
			got = append(got, holdOrWaitText(s, h, w))
		}
		for _, path := range somePaths {
			for _, handle := range m.Handles(path, id) {
				h, w := m.HoldOrWait(id, path, handle)
				want = append(want, holdOrWaitText(s, h, w))
			}
		}
		equal(t, "holds and waits of "+id, got, want)
	}
}

func (r *run) checkPath(t *rapid.T, path string) {
	s, l := r.state, r.model.Lock(path)
	equal(t, "holders of "+path, slices.Collect(s.Holders(path)), l.Holders)
	equal(t, "queue of "+path, slices.Collect(s.Queue(path)), l.Queue)
	got, ok := s.Lock(path)
	if !ok {
		got = &state.Node{}
	}
	if ok != (len(l.Holders)+len(l.Queue) > 0 || l.DelayID != 0) {
		t.Fatalf("lock %s is there: %v", path, ok)
	}
	equal(t, "lock "+path, []any{got.Holders, got.Waiters, got.DelayID, got.DelayMS}, []any{len(l.Holders), len(l.Queue), l.DelayID, l.DelayMS})
	for _, h := range l.Holders {
		byToken, _ := s.HoldByToken(path, h.Token)
		equal(t, "hold by token", byToken, h)
		equal(t, "mode of "+path, got.Mode, h.Mode)
	}
	for i, w := range l.Queue {
		last := i + 1
		for _, other := range w.Set {
			last = max(last, 1+slices.IndexFunc(r.model.Lock(other).Queue, func(o *state.Wait) bool { return o.Seq == w.Seq }))
		}
		equal(t, "position", s.Position(w), last)
	}
	for _, id := range someSessions {
		for _, handle := range someHandles {
			h, w := s.HoldOrWait(id, path, handle)
			wantHold, wantWait := r.model.HoldOrWait(id, path, handle)
			equal(t, "hold or wait", []any{h, w}, []any{wantHold, wantWait})
		}
	}
}

// checkHistory checks that later commands have not changed the earlier states of the
// run.
func (r *run) checkHistory(t *rapid.T) {
	for _, m := range r.past {
		if m.state.Hash() != m.hash {
			t.Fatalf("the state at index %d was changed by later commands; now:\n%s", m.state.Index, dumpText(m.state))
		}
	}
}

func equal[V any](t *rapid.T, what string, got, want V) {
	if reflect.DeepEqual(got, want) {
		return
	}
	if a, b := reflect.ValueOf(got), reflect.ValueOf(want); a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 {
		return // nil or empty
	}
	t.Fatalf("%s: got %+v, want %+v", what, got, want)
}

func batchText(b state.Batch) string {
	var out strings.Builder
	fmt.Fprintf(&out, "batch of epoch %d, lease %d", b.Epoch, b.LeaseMS)
	for _, c := range b.Commands {
		fmt.Fprintf(&out, "\n  at %d: %s %s", c.Time, state.Name(c.Operation), operationText(c.Operation))
	}
	return out.String()
}

func outcomeText(o state.Outcome) string {
	var out strings.Builder
	fmt.Fprintf(&out, "accepted %v, epoch %d, index %d, term %d", o.Accepted, o.Epoch, o.Index, o.Term)
	for _, r := range o.Results {
		fmt.Fprintf(&out, "\n  %s", resultText(r))
	}
	for _, c := range o.Changes {
		fmt.Fprintf(&out, "\n  * %s", changeText(c))
	}
	return out.String()
}

// commands returns operations as commands at the time 0.
func commands(ops ...state.Operation) []state.Command {
	var all []state.Command
	for _, op := range ops {
		all = append(all, state.Command{Operation: op})
	}
	return all
}

// operationText returns an operation with all its fields as text.
func operationText(op state.Operation) string {
	tx, ok := op.(*state.Transaction)
	if !ok {
		return fmt.Sprintf("%+v", op)
	}
	text := fmt.Sprintf("%q key %q digest %x guards %+v if", tx.Session, tx.Key, tx.Digest, tx.Guards)
	for _, c := range tx.If {
		text += fmt.Sprintf(" %T%+v", c, c)
	}
	for i, steps := range [][]state.Step{tx.Then, tx.Else} {
		text += [...]string{" then", " else"}[i]
		for _, s := range steps {
			text += fmt.Sprintf(" %T%+v", s, s)
		}
	}
	return text
}

func theOnly(b state.Batch) state.Operation {
	if len(b.Commands) == 1 {
		return b.Commands[0].Operation
	}
	return nil
}
