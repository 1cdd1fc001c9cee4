package client

import (
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestLookRequestedDuringALook: what was abandoned during a look is not in its
// answer, so another look begins at once.
func TestLookRequestedDuringALook(t *testing.T) {
	c, err := New("http://r1")
	if err != nil {
		t.Fatal(err)
	}
	r := &c.newSession(lockapi.Session{ID: "s", TTLMS: 12_000}).reconciler
	for _, test := range []struct {
		request func()
		overdue bool
	}{{r.lookNow, true}, {func() {}, false}} {
		r.expectOrphan()
		if !r.begin() {
			t.Fatal("no look begins")
		}
		test.request()
		r.end()
		if got := r.isOverdue(); got != test.overdue {
			t.Errorf("overdue: %t, want %t", got, test.overdue)
		}
	}
	r.expectOrphan()
	r.begin()
	r.expectOrphan()
	r.end()
	if !r.once {
		t.Error("an orphan that is expected during a look is forgotten")
	}
}
