package call

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// ErrOtherCell is client.ErrOtherCell.
var ErrOtherCell = errors.New("stout: another cell answers")

// sameCell identifies the cell of a client: that of the first answer. It is
// safe for concurrent use.
type sameCell struct {
	any bool // accepts any cell
	now func() time.Duration

	mu      sync.Mutex
	id      string          // empty before the first answer
	strange map[string]bool // bases of endpoints that answered as another cell since this one last answered
	since   time.Duration   // when the first of them did
}

// mostAbsence bounds how long silent replicas may still count as this cell's
// while others answer as another one: a cell may be restored on fewer machines
// than it had, and the URLs of the others never answer again.
const mostAbsence = 30 * time.Second

// otherCell is an answer of another cell.
type otherCell struct{ base, seen, is string }

func (e *otherCell) Error() string {
	return fmt.Sprintf("%s is a replica of the cell with id %s, and this client has spoken with the one with id %s: was it restored from a backup, or has another its address? To accept it make a new client, or set Config.AnyCell", e.base, e.is, e.seen)
}

func (e *otherCell) Is(target error) bool { return target == ErrOtherCell }

// check refuses the answer of another cell's replica. It passes answers about a
// replica itself, and answers without a cell. It also passes refusals from a
// cell that has had no master yet: an interrupted founding may begin anew, with
// another id.
func (s *sameCell) check(base string, q *Call, status int, answer interface{ Get(string) string }) error {
	if status >= 300 && answer.Get(lockapi.HeaderEpoch) == "0" {
		return nil
	}
	switch q.Path {
	case lockapi.RouteCell, lockapi.RouteReplica, lockapi.RouteReady:
		return nil
	}
	return s.CheckCell(base, answer.Get(lockapi.HeaderCell))
}

// CheckCell refuses the cell id in an answer of the replica at base, if it is
// another cell's; an empty id passes.
func (s *sameCell) CheckCell(base, is string) error {
	if is == "" || s.any {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id = is
	}
	if s.id != is {
		if s.strange == nil {
			s.strange = map[string]bool{}
		}
		if len(s.strange) == 0 {
			s.since = s.now()
		}
		s.strange[base] = true
		return &otherCell{base, s.id, lockapi.Clip(is)}
	}
	clear(s.strange)
	return nil
}

// hasLeft reports whether the replica at an endpoint has answered as another
// cell since this cell's last answer. A replica that fails to answer counts, too,
// if only others have answered, as another cell, for longer than mostAbsence.
func (s *sameCell) hasLeft(base string, fails bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strange[base] || fails && len(s.strange) > 0 && s.now()-s.since > mostAbsence
}

// isThis reports whether an id is this cell's.
func (s *sameCell) isThis(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.any || s.id == "" || s.id == id
}

// IsOtherCell reports whether an answer is another cell's, and whether no replica
// is left that might belong to this one.
func (c *Caller) IsOtherCell(err error) (other, all bool) {
	if _, other = errors.AsType[*otherCell](err); !other || !IsAnswer(err) {
		return false, false
	}
	return true, c.router.Abandoned(func(base string) bool { return c.sameCell.hasLeft(base, c.router.fails(base)) })
}
