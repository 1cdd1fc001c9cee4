package replica

import (
	"net"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/link"
)

// TestStillRunsUnderItsOwnName: a directory that took this one's place runs on, which
// one that waits to be admitted, or is another cell's, does not.
func TestStillRunsUnderItsOwnName(t *testing.T) {
	o := options(t, 1)[0]
	id, err := saved(t).Found(o, 5000)
	must(t, err)
	old, err := OpenStopped(o)
	must(t, err)
	defer func() { must(t, old.Close()) }()
	for _, tt := range []struct{ cellID, directory, says string }{
		{id, "00c0ffee00c0ffee", "with directory 00c0ffee00c0ffee, in the place of this one"},
		{"0123456789abcdef", "00c0ffee00c0ffee", ""},
		{"", "00c0ffee00c0ffee", ""},
	} {
		in, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		at := in.Addr().String()
		other := link.Listen(in, link.Rules{
			Judge: func(link.Opening) ([]byte, error) {
				return cbor.Marshal(admission.Card{Cell: o.Cell, ID: o.ID, Directory: tt.directory, CellID: tt.cellID, RaftAddr: at})
			},
			Members: func() []string { return nil },
		})
		err = old.StillRuns(t.Context(), []cell.Member{{ID: o.ID, RaftAddr: at}}, nil)
		if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("directory %s of cell %q answers: %v", tt.directory, tt.cellID, err)
		}
		must(t, other.Close())
	}
}
