package members

import (
	"testing"
	"time"

	"github.com/stoutlock/stout/replica/membership"
)

const (
	auto         = time.Minute
	newDirectory = "new"
)

// TestTimeBeginsWithALook at which all others are well.
func TestTimeBeginsWithALook(t *testing.T) {
	const most = time.Minute
	var a Contact
	away := wiped()
	away.members[2].well = false
	for at, look := range []struct {
		View
		want time.Duration
	}{{wiped(), 0}, {wiped(), 10 * time.Second}, {away, 0}, {wiped(), 0}, {wiped(), 10 * time.Second}} {
		a.note(time.Duration(at)*10*time.Second, most, look.View)
		if got := a.of("r2", look.View); got != look.want {
			t.Errorf("at poll %d it was silent for %v, want %v", at, got, look.want)
		}
	}
}

// wiped is the result of polling three members, after r2 has lost its
// directory, and further members.
func wiped(more ...member) View {
	var r View
	for _, id := range []string{"r1", "r2", "r3"} {
		one := member{MemberStatus: membership.MemberStatus{Member: membership.Member{ID: id}, Directory: "d" + id, Voter: true}, there: true, well: true}
		if id == "r2" {
			one.there, one.well, one.stranger = false, false, newDirectory
		}
		r.members = append(r.members, one)
	}
	r.members = append(r.members, more...)
	return r
}

// TestPausedMasterCountsNothing: a master that was stopped for a day, with its
// machine, did not poll during that day.
func TestPausedMasterCountsNothing(t *testing.T) {
	const most = 12 * time.Second
	var a Contact
	seen := wiped()
	a.note(0, most, seen)
	a.note(24*time.Hour, most, seen)
	if _, _, ok := a.gone(auto, seen); ok {
		t.Errorf("it was silent for %s", a.of("r2", seen))
	}
	for i := range 5 {
		a.note(24*time.Hour+time.Duration(i+1)*10*time.Second, most, seen)
	}
	if old, directory, ok := a.gone(auto, seen); !ok || old != 1 || directory != newDirectory {
		t.Errorf("%d, %q, %v after %s", old, directory, ok, a.of("r2", seen))
	}
}

// TestOperatorsReplacementGoesFirst: an operator has named a new directory.
// Another one that asks to join must wait until the named one has been silent
// for as long.
func TestOperatorsReplacementGoesFirst(t *testing.T) {
	const most = time.Minute
	named := member{MemberStatus: membership.MemberStatus{Member: membership.Member{ID: "r2"}, Directory: "named"}, stranger: newDirectory}
	var a Contact
	a.note(0, most, wiped())
	for at := 10 * time.Second; at < 2*auto; at += 10 * time.Second {
		a.note(at, most, wiped())
	}
	seen := wiped(named)
	a.note(2*auto, most, seen)
	if _, directory, ok := a.gone(auto, seen); ok {
		t.Errorf("%s is put in the place of one that an operator has just named", directory)
	}
	for at := 2*auto + 10*time.Second; at <= 3*auto; at += 10 * time.Second {
		a.note(at, most, seen)
	}
	if old, directory, ok := a.gone(auto, seen); !ok || old != 1 || directory != newDirectory {
		t.Errorf("%d, %q, %v", old, directory, ok)
	}
}
