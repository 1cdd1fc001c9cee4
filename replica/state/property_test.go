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
)

// Few names, so that commands meet each other; some are prefixes of others, and
// handles may hold any byte.
var (
	someSessions = []string{"s1", "s2", "s3", "s"}
	somePaths    = []string{"/a", "/a/b", "/ab"}
	someHandles  = []string{"", "x", "x\x00y", "\xff"}
	someLimits   = []int64{0, 2}
)

// someKinds are the commands, each as often as it should come.
var someKinds = slices.Concat(
	slices.Repeat([]state.Kind{state.Acquire}, 18),
	slices.Repeat([]state.Kind{state.Release, state.Withdraw, state.EndDelay, state.OpenSession}, 4),
	slices.Repeat([]state.Kind{state.ExpireSession}, 3),
	[]state.Kind{state.CloseSession, state.CloseOffice, state.OpenOffice, state.MarkState, state.TellSum, state.NoteMembers},
)

// someMembers are what a table of members is made of.
var someMembers = []state.Member{{ID: "r1", Directory: "a"}, {ID: "r1", Directory: "b", URL: "http://r1"}, {ID: "r2", Directory: "a"}, {ID: "r3"}}

// TestAgainstModel runs random logs through the state and the naive model, which
// have to agree on every result, event and read. A second replica gets the same
// log as bytes, is snapshotted and restored in between, and must hash the same.
func TestAgainstModel(t *testing.T) { rapid.Check(t, againstModel) }

func againstModel(t *rapid.T) {
	r := &run{state: state.New(), replica: state.New(), model: newModel(), term: 1}
	r.start(t)
	t.Repeat(map[string]func(*rapid.T){
		"batch":   r.batch,
		"batch 2": r.batch, // drawn more often than the others
		"batch 3": r.batch,
		"office":  r.openOffice,
		"stray":   r.stray,
		"restore": r.restore,
		"":        r.check,
	})
	r.checkHistory(t)
}

type run struct {
	state, replica *state.State
	model          *model
	term           uint64
	now            int64
	past           []moment
}

// moment is a state of the past with the hash that it had then.
type moment struct {
	state *state.State
	hash  [32]byte
}

func (r *run) apply(t *rapid.T, term uint64, b state.Batch) {
	r.past = append(r.past, moment{r.state, r.state.Hash()})
	index := r.state.Index + 1
	next, got := r.state.Apply(index, term, b)
	want := r.model.apply(index, term, b)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\ngot:  %s\nwant: %s\nbefore:\n%s", batchText(b), outcomeText(got), outcomeText(want), dumpText(r.state))
	}
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

// start opens an office and all the sessions.
func (r *run) start(t *rapid.T) {
	r.apply(t, 1, state.Batch{LeaseMS: 2000, Commands: []state.Command{{Kind: state.OpenOffice, Master: "r1", Term: 1}}})
	b := state.Batch{Epoch: 1, LeaseMS: 2000}
	for _, id := range someSessions {
		b.Commands = append(b.Commands, state.Command{Kind: state.OpenSession, Session: id, TTLMS: 1000})
	}
	r.apply(t, 1, b)
}

func (r *run) openOffice(t *rapid.T) {
	r.term += rapid.Uint64Range(0, 2).Draw(t, "terms")
	made := r.term - rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "late by")
	r.apply(t, r.term, state.Batch{LeaseMS: r.lease(t), Commands: []state.Command{
		{Kind: state.OpenOffice, Time: r.clock(t), Master: "r1", Term: made}}})
}

// batch is one that the office in power sends.
func (r *run) batch(t *rapid.T) {
	if !r.model.office.Open {
		r.openOffice(t)
	} else {
		r.apply(t, r.model.office.Term, state.Batch{Epoch: r.model.epoch, LeaseMS: r.lease(t), Commands: r.commands(t)})
	}
}

// stray is one of another epoch or from another term.
func (r *run) stray(t *rapid.T) {
	b := state.Batch{Epoch: rapid.Uint64Range(0, r.model.epoch+1).Draw(t, "epoch"), LeaseMS: r.lease(t), Commands: r.commands(t)}
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
	c := state.Command{Time: r.clock(t)}
	c.Kind = rapid.SampledFrom(someKinds).Draw(t, "kind")
	c.Session = rapid.SampledFrom(someSessions).Draw(t, "session")
	c.Path = rapid.SampledFrom(somePaths).Draw(t, "path")
	c.Handle = rapid.SampledFrom(someHandles).Draw(t, "handle")
	switch c.Kind {
	case state.OpenSession:
		r.fillSession(t, &c)
	case state.Acquire:
		c.Mode = rapid.SampledFrom([]state.Mode{state.Exclusive, state.Shared, state.Shared}).Draw(t, "mode")
		if c.Mode == state.Shared {
			c.Limit = rapid.SampledFrom(someLimits).Draw(t, "limit")
		}
		c.Wait = rapid.SampledFrom([]state.WaitFor{state.NoWait, state.WhileHot, state.WhileHot, state.Keep}).Draw(t, "wait")
		c.DelayMS = rapid.SampledFrom([]int64{0, 1000, 5000, 2000}).Draw(t, "delay")
	case state.Release:
		r.aim(t, &c)
		if h, _ := r.model.claim(c.Session, c.Path, c.Handle); h != nil && rapid.Bool().Draw(t, "by token") {
			c.Token = h.Token - rapid.Uint64Range(0, 1).Draw(t, "old")
		}
	case state.Withdraw:
		r.aim(t, &c)
		c.Undo = rapid.Bool().Draw(t, "undo")
		h, w := r.model.claim(c.Session, c.Path, c.Handle)
		switch right := rapid.IntRange(0, 3).Draw(t, "right number") > 0; {
		case right && w != nil:
			c.Seq = w.Seq
		case right && h != nil:
			c.Seq = h.WaitSeq
		default:
			c.Seq = rapid.Uint64Range(0, r.model.seq).Draw(t, "seq")
		}
	case state.TellSum:
		c.Seq = rapid.Uint64Range(0, r.state.Index+2).Draw(t, "entry")
		c.Digest = bytes.Repeat([]byte{byte(c.Seq)}, 32)
	case state.NoteMembers:
		c.Members = rapid.SliceOfN(rapid.SampledFrom(someMembers), 1, 3).Draw(t, "members")
	case state.EndDelay:
		c.Seq = rapid.Uint64Range(0, r.model.seq).Draw(t, "seq")
		if rapid.Bool().Draw(t, "right number") {
			c.Seq = r.model.lock(c.Path).delayID
		}
	}
	return c
}

func (r *run) fillSession(t *rapid.T, c *state.Command) {
	c.Name, c.TTLMS = "n", rapid.Int64Range(1000, 1002).Draw(t, "ttl")
	if rapid.Bool().Draw(t, "with meta") {
		c.Meta = map[string]string{"pid": "1", "a": "\xff", "zz": ""}
	}
	if c.Key = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key"); c.Key != "" {
		c.Digest = []byte{rapid.Byte().Draw(t, "digest") % 2}
	}
}

// aim points c at a claim that is there, most of the time.
func (r *run) aim(t *rapid.T, c *state.Command) {
	var all []state.Command
	for _, path := range slices.Sorted(maps.Keys(r.model.locks)) {
		for _, h := range r.model.locks[path].holders {
			all = append(all, state.Command{Path: path, Session: h.Session, Handle: h.Handle})
		}
		for _, w := range r.model.locks[path].queue {
			all = append(all, state.Command{Path: path, Session: w.Session, Handle: w.Handle})
		}
	}
	if len(all) > 0 && rapid.IntRange(0, 3).Draw(t, "aimed") > 0 {
		at := rapid.SampledFrom(all).Draw(t, "claim")
		c.Path, c.Session, c.Handle = at.Path, at.Session, at.Handle
	}
}

// check compares everything that can be read, and both replicas.
func (r *run) check(t *rapid.T) {
	s, m := r.state, r.model
	if err := s.Check(); err != nil {
		t.Fatalf("%v\n%s", err, dumpText(s))
	}
	if !s.Equal(r.replica) {
		t.Fatalf("the replicas differ:\n%s\n%s", dumpText(s), dumpText(r.replica))
	}
	equal(t, "members", s.Members, m.members)
	equal(t, "header", []any{s.Epoch, s.Office, s.Counter, s.Seq, s.Now}, []any{m.epoch, m.office, m.counter, m.seq, m.now})
	r.checkSessions(t)
	var paths []string
	holds, waits := 0, 0
	for _, path := range somePaths {
		r.checkPath(t, path)
		l := m.lock(path)
		holds, waits = holds+len(l.holders), waits+len(l.queue)
		if len(l.holders)+len(l.queue) > 0 || l.delayID != 0 {
			paths = append(paths, path)
		}
	}
	equal(t, "counts", []int{s.SessionCount(), s.LockCount(), s.HoldCount(), s.WaitCount()},
		[]int{len(m.sessions), len(paths), holds, waits})
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
	want := slices.SortedFunc(slices.Values(m.sessions), func(a, b *state.Session) int { return strings.Compare(a.ID, b.ID) })
	equal(t, "sessions", slices.Collect(s.Sessions("")), want)
	equal(t, "sessions after s1", slices.Collect(s.Sessions("s1")),
		slices.DeleteFunc(want, func(v *state.Session) bool { return v.ID <= "s1" }))
	for _, key := range []string{"k", "l", ""} {
		got, _ := s.SessionByKey(key)
		i := slices.IndexFunc(m.sessions, func(v *state.Session) bool { return key != "" && v.Key == key })
		if (i < 0) != (got == nil) || i >= 0 && got.ID != m.sessions[i].ID {
			t.Fatalf("key %q leads to %v, want session %d of the model", key, got, i)
		}
	}
	for _, id := range someSessions {
		var got, want []string
		for h, w := range s.Claims(id) {
			got = append(got, claimText(s, h, w))
		}
		for _, path := range somePaths {
			for _, handle := range m.handles(path, id) {
				h, w := m.claim(id, path, handle)
				want = append(want, claimText(s, h, w))
			}
		}
		equal(t, "claims of "+id, got, want)
	}
}

func (r *run) checkPath(t *rapid.T, path string) {
	s, l := r.state, r.model.lock(path)
	equal(t, "holders of "+path, slices.Collect(s.Holders(path)), l.holders)
	equal(t, "queue of "+path, slices.Collect(s.Queue(path)), l.queue)
	got, ok := s.Lock(path)
	if !ok {
		got = &state.Lock{}
	}
	if ok != (len(l.holders)+len(l.queue) > 0 || l.delayID != 0) {
		t.Fatalf("lock %s is there: %v", path, ok)
	}
	equal(t, "lock "+path, []any{got.Holders, got.Waiters, got.DelayID, got.DelayMS}, []any{len(l.holders), len(l.queue), l.delayID, l.delayMS})
	for _, h := range l.holders {
		byToken, _ := s.HoldByToken(path, h.Token)
		equal(t, "hold by token", byToken, h)
		equal(t, "mode of "+path, got.Mode, h.Mode)
	}
	for i, w := range l.queue {
		equal(t, "position", s.Position(w), i+1)
	}
	for _, id := range someSessions {
		for _, handle := range someHandles {
			h, w := s.Claim(id, path, handle)
			wantHold, wantWait := r.model.claim(id, path, handle)
			equal(t, "claim", []any{h, w}, []any{wantHold, wantWait})
		}
	}
	for _, limit := range someLimits {
		equal(t, "decide shared", s.Decide(path, state.Shared, limit), r.model.decide(path, state.Shared, limit))
	}
	equal(t, "decide exclusive", s.Decide(path, state.Exclusive, 0), r.model.decide(path, state.Exclusive, 0))
}

// checkHistory looks at every state of the run once more: later commands must
// not have touched them.
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
		fmt.Fprintf(&out, "\n  %v %+v", c.Kind, c)
	}
	return out.String()
}

func outcomeText(o state.Outcome) string {
	var out strings.Builder
	fmt.Fprintf(&out, "accepted %v, epoch %d, index %d, term %d", o.Accepted, o.Epoch, o.Index, o.Term)
	for _, r := range o.Results {
		fmt.Fprintf(&out, "\n  %s", resultText(r))
	}
	for _, e := range o.Events {
		fmt.Fprintf(&out, "\n  * %s", eventText(e))
	}
	return out.String()
}
