package members

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
)

const (
	ms      = time.Millisecond
	earlier = "earlier"
)

func founder(id string) string { return "founder of " + id }

func memberStatus(name, directory string, voter bool) membership.MemberStatus {
	return membership.MemberStatus{Member: membership.Member{ID: name}, Directory: directory, Voter: voter}
}

// TestSuccessor: the fastest member that is well, and only if the others are a
// majority without the master.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	type need struct {
		write    time.Duration
		snapshot bool
	}
	disk, snapshot := need{write: 100 * ms}, need{100 * ms, true}
	voter := func(i int, sync time.Duration) member {
		return member{MemberStatus: membership.MemberStatus{Member: membership.Member{ID: fmt.Sprintf("r%d", i)}, Voter: true},
			card: admission.Info{HasLeader: true, Sync: uint64(sync.Microseconds())}, there: true, well: true}
	}
	for _, c := range []struct {
		name   string
		why    need
		change func(r2, r3 *member)
		want   string
	}{
		{"both are fast", disk, func(_, _ *member) {}, "r3"},
		{"one has a write under way", disk, func(_, r3 *member) { r3.card.Writing = 20_000 }, "r2"},
		{"one is slow as well", disk, func(_, r3 *member) { r3.card.Sync = 101_000 }, ""},
		{"one hangs as well", disk, func(r2, _ *member) { r2.card.Writing = 300_000 }, ""},
		{"one is away", disk, func(r2, _ *member) { r2.there, r2.well = false, false }, ""},
		{"one hears no master", disk, func(r2, _ *member) { r2.well = false }, ""},
		{"one is behind", disk, func(_, r3 *member) { r3.behind = MaxLag + 1 }, ""},
		{"one does not tell", disk, func(_, r3 *member) { r3.card.Sync = 0 }, ""},
		{"one has no vote", disk, func(_, r3 *member) { r3.Voter = false }, ""},
		{"nothing is gained", need{write: ms}, func(_, _ *member) {}, ""},
		{"a snapshot", snapshot, func(_, _ *member) {}, "r3"},
		{"a snapshot that the fastest cannot send", snapshot, func(_, r3 *member) { r3.card.Unsent = 1 }, "r2"},
		{"a snapshot, and one is away", snapshot, func(r2, _ *member) { r2.well = false }, "r3"},
		{"a snapshot that is for the fastest", snapshot, func(_, r3 *member) { r3.behind = 1199 }, "r2"},
		{"a snapshot that none can send", snapshot, func(r2, r3 *member) { r2.card.Unsent, r3.card.Unsent = 1, 1 }, ""},
	} {
		r := View{members: []member{voter(1, 0), voter(2, 3*ms), voter(3, 2*ms)}}
		c.change(&r.members[1], &r.members[2])
		if got := r.Candidate("r1", c.why.write, c.why.snapshot); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSupersededTakesNoPlace: a superseded directory gets no vote, although it
// has caught up.
func TestSupersededTakesNoPlace(t *testing.T) {
	away := memberStatus("r2", founder("r2"), true)
	seen := View{members: []member{
		{MemberStatus: memberStatus("r1", founder("r1"), true), there: true, well: true}, {MemberStatus: away},
		{MemberStatus: memberStatus("r2", earlier, false), there: true, well: true}, {MemberStatus: memberStatus("r2", newDirectory, false)},
		{MemberStatus: memberStatus("r3", founder("r3"), true), there: true, well: true},
	}}
	toVote := func(s membership.MemberStatus) bool { return !s.Voter }
	if _, _, ok := seen.step(toVote); ok {
		t.Error("a directory that another one supersedes takes the place")
	}
	seen.members = slices.Delete(seen.members, 2, 3)
	seen.members[2].there, seen.members[2].well = true, true
	if _, _, ok := seen.step(toVote); !ok {
		t.Error("the test shows nothing: the latest one does not take the place either")
	}
}

// TestDirectoriesGoInOrder: of several directories of a name the voter goes
// last. The others go in the order in which they were added. So no superseded
// directory is ever the only one left.
func TestDirectoriesGoInOrder(t *testing.T) {
	all := []membership.MemberStatus{memberStatus("r1", founder("r1"), true), memberStatus("r2", founder("r2"), true), memberStatus("r2", earlier, false), memberStatus("r2", newDirectory, false)}
	for but, want := range map[string][]string{"": {earlier, newDirectory, founder("r2")}, founder("r2"): {earlier, newDirectory}, newDirectory: {earlier}} {
		var got []string
		for left := slices.Clone(all); ; {
			i := goesNext(left, "r2", but)
			if i < 0 {
				break
			}
			got, left = append(got, left[i].Directory), slices.Delete(left, i, i+1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("all but %q go in the order %q, want %q", but, got, want)
		}
	}
}
