package recipe

import (
	"context"
	"errors"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Raise raises the barrier at path: callers of Await wait from now on. With
// client.Ephemeral it falls with the session, otherwise only by Lower. Raise
// does not change a barrier that is already up.
func Raise(ctx context.Context, s *client.Session, path string, opts ...client.WriteOption) error {
	return ensure(ctx, s, path, opts...)
}

// ensure creates a file unless it exists. The cause with which ctx ends may be
// an ErrPrecondition, too, and reports no file.
func ensure(ctx context.Context, s *client.Session, path string, opts ...client.WriteOption) error {
	_, err := s.Create(ctx, path, nil, opts...)
	if errors.Is(err, client.ErrPrecondition) && ctx.Err() == nil {
		return nil
	}
	return err
}

// Lower lets all callers pass.
func Lower(ctx context.Context, s *client.Session, path string) error {
	_, err := s.Delete(ctx, path)
	return err
}

// Await waits until the barrier at path is down. It does not miss a barrier
// that is raised again at once: lowering it is an event of its own.
func Await(ctx context.Context, c *client.Client, path string) error {
	up := uint64(0)
	for file, err := range present(ctx, c, path) {
		switch {
		case err != nil || file == nil:
			return err
		case up != 0 && file.Instance != up:
			return nil // it fell meanwhile, and those events are no longer kept
		}
		up = file.Instance
	}
	return nil
}

// ready is the name of the file that marks a complete meeting. No path below a
// name from a caller equals it: names have no ".".
const ready = "all.there"

// Meet waits until n processes are at the meeting at dir, which ends in "/",
// and returns to each of them. Each has its own name, without a ".". A process
// no longer counts if its session ends before the meeting is complete.
//
// A file records that the meeting is complete, for late callers, and is kept.
// Use a new dir for each meeting, and delete it with client.DeleteBelow
// afterwards.
func Meet(ctx context.Context, s *client.Session, dir, name string, n int) error {
	if strings.Contains(name, ".") {
		return lockapi.Invalid("name", "the name %q at a meeting has a %q", lockapi.Clip(name), ".")
	}
	ctx, end := whileOpen(ctx, s)
	defer end()
	if err := Join(ctx, s, dir, name, nil); err != nil {
		return err
	}
	g := gathering{dir: dir, n: n, there: make(map[string]bool)}
	for change, err := range s.Client().Follow(ctx, dir) {
		if err != nil {
			return err
		}
		switch over, all := g.note(&change); {
		case over:
			return nil
		case all:
			return ensure(ctx, s, dir+ready) // another process may have done so
		}
	}
	return nil
}

// gathering is the known state of a meeting.
type gathering struct {
	dir    string
	n      int
	there  map[string]bool // by name
	synced bool            // there lists exactly the present members
}

// note processes a change. It reports whether the meeting is marked complete,
// and whether all are there now.
func (g *gathering) note(change *client.FileChange) (over, all bool) {
	name, isMember := memberName(g.dir, change.Path)
	switch {
	case name == ready && change.File != nil:
		return true, false
	case !isMember || name == ready:
	case change.File == nil:
		delete(g.there, name)
	default:
		g.there[name] = true
	}
	// After a gap, arrivals are reported before departures: the listed members
	// may never have been there together.
	g.synced = change.Synced || g.synced && !change.Listed
	return false, g.synced && len(g.there) >= g.n
}
