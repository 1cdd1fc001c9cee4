package call

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestFoundingIsNoCell: an interrupted founding starts again with another id. A
// client that called before continues with the resulting cell.
func TestFoundingIsNoCell(t *testing.T) {
	s := sameCell{now: func() time.Duration { return 0 }}
	q := &Call{Path: lockapi.RouteLocks + "/l"}
	answer := func(id, epoch string) http.Header {
		h := http.Header{}
		h.Set(lockapi.HeaderCell, id)
		h.Set(lockapi.HeaderEpoch, epoch)
		return h
	}
	for _, step := range []struct {
		id, epoch string
		status    int
		other     bool
	}{{"a", "0", 503, false}, {"b", "1", 200, false}, {"a", "0", 503, false}, {"b", "2", 503, false}, {"a", "0", 200, true}, {"c", "1", 503, true}} {
		if err := s.check("http://r1", q, step.status, answer(step.id, step.epoch)); errors.Is(err, ErrOtherCell) != step.other {
			t.Errorf("%+v: %v", step, err)
		}
	}
}
