package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
)

// TestDirectoryPutBackBesideALateReplica: one replica's directory is put back
// to an old copy while another replica is down. The two then elect a master,
// and no master in office knows of the lost entries. The replica that has the
// lost entries reports the loss and keeps them.
func TestDirectoryPutBackBesideALateReplica(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	has := c.Ready(t)
	putBack, late := c.Others(has)[0], c.Others(has)[1]

	must(t, putBack.Kill())
	old := putBack.DataDir + ".old"
	must(t, os.CopyFS(old, os.DirFS(putBack.DataDir)))
	must(t, putBack.Start())
	c.Ready(t)
	must(t, late.Kill())
	s := open(t, has, aWhile)
	for i := range 3 {
		acquire(t, has, fmt.Sprintf("/lost/%d", i), ask(s.ID, "", 0))
	}
	must(t, has.Kill())
	must(t, putBack.Kill())
	must(t, os.RemoveAll(putBack.DataDir))
	must(t, os.Rename(old, putBack.DataDir))
	must(t, putBack.Start())
	must(t, late.Start())
	master := c.WaitMasterOf(t, putBack, late)
	s = open(t, master, aWhile)
	for i := range 8 { // beyond the lost entries
		acquire(t, master, fmt.Sprintf("/instead/%d", i), ask(s.ID, "", 0))
	}

	must(t, has.Start())
	<-has.Exited()
	if code, _ := has.ExitState(); code != 74 || !strings.Contains(has.LogTail(5), "lacks changes that were acknowledged") {
		t.Errorf("it ends with %d:\n%s", code, has.LogTail(5))
	}
	must(t, cell.Wait(cell.Bounded(t), "the master reports it", func(ctx context.Context) error {
		view, err := master.Cell(ctx)
		if err != nil {
			return err
		}
		for _, r := range view.Replicas {
			if r.ID == has.ID && strings.Contains(r.Fault, "lacks changes that were acknowledged") {
				return nil
			}
		}
		return fmt.Errorf("it shows %+v", view.Replicas)
	}))
}
