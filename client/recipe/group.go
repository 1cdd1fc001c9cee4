package recipe

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Member is a member of a group.
type Member struct {
	Name  string
	Value []byte    // published by the member, for example its address
	Since time.Time // by the master's clock
}

// Join makes the session a member of the group at dir, which ends in "/", until
// it leaves or the session ends. A further call changes the value. A member's
// name passes to the latest session that joins under it: a restarted process
// need not wait for the end of its former session.
func Join(ctx context.Context, s *client.Session, dir, name string, value []byte) error {
	path, err := memberPath(dir, name)
	if err == nil {
		_, err = s.Put(ctx, path, value, client.Ephemeral())
	}
	return err
}

// memberPath returns the path of a member's file.
func memberPath(dir, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", lockapi.Invalid("name", "the name %q of a member has a %q", lockapi.Clip(name), "/")
	}
	if err := lockapi.ValidatePrefix(dir); err != nil {
		return "", lockapi.Invalid("dir", "%q is not a group's directory: it must end in %q and must not be the root", lockapi.Clip(dir), "/")
	}
	return dir + name, lockapi.ValidatePath(dir + name)
}

// memberName returns the name of the member with that file. Files deeper down
// are not the group's.
func memberName(dir, path string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, dir)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// Leave ends the session's membership. If the name has passed to another
// session, that one stays a member.
func Leave(ctx context.Context, s *client.Session, dir, name string) error {
	path, err := memberPath(dir, name)
	if err != nil {
		return err
	}
	for {
		file, _, err := find(ctx, s.Client(), path)
		if err != nil || file == nil || file.Session != s.ID() {
			return err
		}
		if _, err = s.Delete(ctx, path, client.IfRevision(file.Revision)); !errors.Is(err, client.ErrPrecondition) {
			return err
		}
	}
}

// Stay keeps a member in the group until ctx ends, with its own session, and
// with another one when that ends. It returns the error that prevents
// membership, or ctx's error.
func Stay(ctx context.Context, c *client.Client, dir, name string, value []byte, opts ...client.SessionOption) error {
	return inSessions(ctx, c, opts, func(s *client.Session) (bool, error) {
		err := Join(ctx, s, dir, name, value)
		if err == nil {
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-s.Done():
			}
		}
		return failed(ctx, s, err)
	})
}

// Members yields the members of a group by their names, and again after each
// change, without end. An error is yielded last.
func Members(ctx context.Context, c *client.Client, dir string) iter.Seq2[[]Member, error] {
	return func(yield func([]Member, error) bool) {
		if _, err := memberPath(dir, "any"); err != nil {
			yield(nil, err)
			return
		}
		members, synced := make(map[string]Member), false
		for change, err := range c.Follow(ctx, dir, client.Contents()) {
			name, isMember := memberName(dir, change.Path)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case change.Synced:
				synced = true
			case !isMember:
				continue
			case change.File == nil:
				delete(members, name)
			case change.File.Content == nil:
				continue // it was changed again at once; that change comes next
			default:
				members[name] = Member{Name: name, Value: change.File.Content, Since: change.File.CreatedAt}
			}
			// Changes found after a gap are yielded together.
			if synced = synced && (change.Synced || !change.Listed); synced && !yield(inOrder(members), nil) {
				return
			}
		}
	}
}

func inOrder(members map[string]Member) []Member {
	return slices.SortedFunc(maps.Values(members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
}
