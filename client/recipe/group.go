package recipe

import (
	"cmp"
	"context"
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
	Value []byte    // what it says of itself, its address say
	Since time.Time // by the master's clock
}

// Join makes the session a member of the group at dir, which is given with the
// "/" at its end, until it leaves or the session ends. Called again it changes
// the value. A name that another session has is taken over: a process that
// restarts need not wait for the end of its former session.
func Join(ctx context.Context, s *client.Session, dir, name string, value []byte) error {
	path, err := memberPath(dir, name)
	if err == nil {
		_, err = s.Put(ctx, path, value, client.Ephemeral())
	}
	return err
}

// memberPath is the path of a member's file.
func memberPath(dir, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", lockapi.Invalid("name", "the name %q of a member has a %q", lockapi.Clip(name), "/")
	}
	if err := lockapi.ValidatePrefix(dir); err != nil {
		return "", lockapi.Invalid("dir", "%q is no directory of a group: it is to end in %q, and not to be the root", lockapi.Clip(dir), "/")
	}
	return dir + name, lockapi.ValidatePath(dir + name)
}

// memberName is the name of the member whose file it is. What lies deeper is
// none of the group's.
func memberName(dir, path string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, dir)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// Leave ends a membership.
func Leave(ctx context.Context, s *client.Session, dir, name string) error {
	path, err := memberPath(dir, name)
	if err == nil {
		_, err = s.Delete(ctx, path)
	}
	return err
}

// Stay is a member of the group until ctx ends, with a session of its own, and
// another one where that ends. It returns what keeps it from being one, in the
// end ctx's error.
func Stay(ctx context.Context, c *client.Client, dir, name string, value []byte, opts ...client.SessionOption) error {
	for {
		s, err := openSession(ctx, c, opts)
		if err != nil {
			return err
		}
		if err = Join(ctx, s, dir, name, value); err == nil {
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-s.Done():
			}
		}
		over := s.Err()
		ending, cancel := last(ctx)
		_ = s.Close(ending) // at worst it expires
		cancel()
		if over == nil {
			return err
		}
	}
}

// Members yields the members of a group by their names, and again after each
// change, for ever. An error is yielded last.
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
				continue // it was changed again at once, and that comes next
			default:
				members[name] = Member{Name: name, Value: change.File.Content, Since: change.File.CreatedAt}
			}
			// After a gap the changes that were found are told together.
			if synced = synced && (change.Synced || !change.Listed); synced && !yield(inOrder(members), nil) {
				return
			}
		}
	}
}

func inOrder(members map[string]Member) []Member {
	return slices.SortedFunc(maps.Values(members), func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
}
