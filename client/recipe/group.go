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
	_, err := s.Put(ctx, dir+name, value, client.Ephemeral())
	return err
}

// Leave ends a membership.
func Leave(ctx context.Context, s *client.Session, dir, name string) error {
	_, err := s.Delete(ctx, dir+name)
	return err
}

// Stay is a member of the group until ctx ends, with a session of its own, and
// another one where that ends. It returns what keeps it from being one, in the
// end ctx's error.
func Stay(ctx context.Context, c *client.Client, dir, name string, value []byte, opts ...client.SessionOption) error {
	for {
		s, err := c.NewSession(ctx, opts...)
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
		members, synced := make(map[string]Member), false
		for change, err := range c.Follow(ctx, dir, client.Contents()) {
			name := strings.TrimPrefix(change.Path, dir)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case change.Synced:
				synced = true
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
