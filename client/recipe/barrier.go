package recipe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stoutlock/stout/client"
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
	if strings.ContainsAny(name, "./") || name == "" {
		return fmt.Errorf("recipe: the name %q at a meeting is empty, or has a %q or a %q", name, ".", "/")
	}
	ctx, end := whileOpen(ctx, s)
	defer end()
	if err := Join(ctx, s, dir, name, nil); err != nil {
		return err
	}
	there, synced := make(map[string]bool), false
	for change, err := range s.Client().Follow(ctx, dir) {
		switch {
		case err != nil:
			return err
		case change.Path == dir+ready && change.File != nil:
			return nil
		case change.Synced:
			synced = true
		case change.File == nil:
			delete(there, change.Path)
		default:
			there[change.Path] = true
		}
		if synced && len(there) >= n {
			return complete(ctx, s, dir)
		}
	}
	return nil
}

// complete writes down that all are there. Somebody else may have done so.
func complete(ctx context.Context, s *client.Session, dir string) error {
	_, err := s.Create(ctx, dir+ready, nil)
	if errors.Is(err, client.ErrPrecondition) {
		return nil
	}
	return err
}
