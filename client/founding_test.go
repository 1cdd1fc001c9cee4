package client

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestFoundingIsNoCell: a founding that was cut off begins anew, with another id. Who has
// asked meanwhile goes on with the cell that came of it.
func TestFoundingIsNoCell(t *testing.T) {
	var s sameCell
	q := &call{path: lockapi.RouteLocks + "/l"}
	answer := func(id, epoch string) http.Header {
		h := http.Header{}
		h.Set(lockapi.HeaderCell, id)
		h.Set(lockapi.HeaderEpoch, epoch)
		return h
	}
	for _, step := range []struct {
		id, epoch string
		other     bool
	}{{"a", "0", false}, {"b", "1", false}, {"a", "0", false}, {"b", "2", false}, {"c", "1", true}} {
		if err := s.check("http://r1", q, answer(step.id, step.epoch)); errors.Is(err, ErrOtherCell) != step.other {
			t.Errorf("%+v: %v", step, err)
		}
	}
}
