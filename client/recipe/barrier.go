package recipe

import (
	"context"
	"errors"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Raise raises the barrier at path: whoever awaits it waits from now on. With
// client.Ephemeral it falls with the session, else only by Lower. A barrier
// that is up already stays as it is.
func Raise(ctx context.Context, s *client.Session, path string, opts ...client.WriteOption) error {
	_, err := s.Create(ctx, path, nil, opts...)
	if errors.Is(err, client.ErrPrecondition) {
		return nil
	}
	return err
}

// Lower lets everybody pass.
func Lower(ctx context.Context, s *client.Session, path string) error {
	_, err := s.Delete(ctx, path)
	return err
}

// Await waits until the barrier at path is down. One that is raised again at
// once is not missed: that it was down is an event of its own.
func Await(ctx context.Context, c *client.Client, path string) error {
	for file, err := range present(ctx, c, path) {
		if err != nil || file == nil {
			return err
		}
	}
	return nil
}

// ready is the name of the file which says that a meeting is complete. No path
// below a name that a caller can give is spelled like it: names have no ".".
const ready = "all.there"

// Meet waits until n processes are at the meeting at dir, which is given with
// the "/" at its end, and returns to each of them. Each has a name of its own,
// without a ".". One whose session ends before the meeting is complete counts
// no more.
//
// That it is complete is written down, for those who look late, and stays: each
// meeting wants a dir of its own, to be deleted with client.DeleteBelow when
// all is done.
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
			return complete(ctx, s, dir)
		}
	}
	return nil
}

// gathering is what is known of a meeting.
type gathering struct {
	dir    string
	n      int
	there  map[string]bool // by name
	synced bool            // all that are there are known, and nobody else
}

// note takes a change in. It says whether the meeting is written down to be
// complete, and whether all are there now.
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
	// After a gap those who have come are told before those who have gone: they
	// may never have been there together.
	g.synced = change.Synced || g.synced && !change.Listed
	return false, g.synced && len(g.there) >= g.n
}

// complete writes down that all are there. Somebody else may have done so.
func complete(ctx context.Context, s *client.Session, dir string) error {
	_, err := s.Create(ctx, dir+ready, nil)
	if errors.Is(err, client.ErrPrecondition) {
		return nil
	}
	return err
}
