package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

// wholeBackup returns a complete backup.
func wholeBackup(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	h := lockapi.BackupHeader{Cell: "fake", Revision: 57}
	must(t, backup.Write(&out, h, func(w io.Writer) error { _, err := io.WriteString(w, strings.Repeat("state", 20_000)); return err }))
	return out.Bytes()
}

// A backup comes from the master, also after a change of master.
func TestBackup(t *testing.T) {
	bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
		whole := wholeBackup(t)
		n.instead = func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != cell.Master() {
				return nil, nil
			}
			resp := answer(http.StatusOK, string(whole))
			resp.Header = http.Header{"Content-Type": {lockapi.TypeBackup}, lockapi.HeaderRevision: {"57"}}
			return resp, nil
		}
		cell.Stop("r1")
		cell.Elect("r3")
		var out bytes.Buffer
		h, err := a.Backup(t.Context(), &out)
		if err != nil || h.Revision != 57 || !bytes.Equal(out.Bytes(), whole) {
			t.Errorf("%+v, %v; %d of %d bytes", h, err, out.Len(), len(whole))
		}
	})
}

// A replica that hangs does not use up the time for a backup.
func TestBackupBesideAHangingReplica(t *testing.T) {
	bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
		whole := wholeBackup(t)
		cell.Elect("r3")
		n.instead = func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host == "r1":
				return hang(r)
			case r.URL.Path != lockapi.RouteBackup:
				return nil, nil
			}
			resp := answer(http.StatusOK, string(whole))
			resp.Header = http.Header{"Content-Type": {lockapi.TypeBackup}, lockapi.HeaderRevision: {"57"}}
			return resp, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if h, err := a.Backup(ctx, io.Discard); err != nil || h.Revision != 57 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// An incomplete backup is an error, however it ends.
func TestBrokenBackups(t *testing.T) {
	whole := wholeBackup(t)
	header := http.Header{"Content-Type": {lockapi.TypeBackup}, lockapi.HeaderRevision: {"57"}}
	connection := errors.New("connection reset by peer")
	for name, c := range map[string]struct {
		body   io.Reader
		header http.Header
		want   string
	}{
		"cut off":          {bytes.NewReader(whole[:len(whole)-1]), header, "damaged or cut off"},
		"half":             {bytes.NewReader(whole[:len(whole)/2]), header, "damaged or cut off"},
		"nothing":          {bytes.NewReader(nil), header, "damaged or cut off"},
		"broken":           {io.MultiReader(bytes.NewReader(whole[:len(whole)-1]), iotest.ErrReader(connection)), header, "reset by peer"},
		"broken at begin":  {iotest.ErrReader(connection), header, "reset by peer"},
		"something else":   {strings.NewReader("<html>"), http.Header{"Content-Type": {"text/html"}}, "base URL"},
		"another revision": {bytes.NewReader(whole), http.Header{"Content-Type": {lockapi.TypeBackup}, lockapi.HeaderRevision: {"58"}}, "revision 57"},
	} {
		n := &network{instead: func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: c.header, Body: io.NopCloser(c.body)}, nil
		}}
		a := over(t, client.Config{URLs: []string{"http://r1"}, Transport: n})
		if _, err := a.Backup(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) || len(n.sent) != 1 {
			t.Errorf("%s: %v, sent %d times", name, err, len(n.sent))
		}
	}
}

// The client gives up a backup if its stream falls silent.
func TestSilentBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := wholeBackup(t)
		n := &network{instead: func(r *http.Request) (*http.Response, error) {
			body := io.MultiReader(bytes.NewReader(whole[:100]), blocked{r.Context()})
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {lockapi.TypeBackup}}, Body: io.NopCloser(body)}, nil
		}}
		a := over(t, client.Config{URLs: []string{"http://r1"}, Transport: n})
		began := time.Now()
		if _, err := a.Backup(t.Context(), io.Discard); err == nil || time.Since(began) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// Backup returns the refusal of a cell that is busy or denies it. It waits for
// a master.
func TestBackupRefused(t *testing.T) {
	bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
		for _, code := range []lockapi.Code{lockapi.CodeTooMany, lockapi.CodePermissionDenied} {
			n.instead = func(*http.Request) (*http.Response, error) {
				return answer(code.Status(), `{"code":"`+string(code)+`"}`), nil
			}
			if _, err := a.Backup(t.Context(), io.Discard); !errors.Is(err, code) {
				t.Error(err)
			}
		}
		n.instead = nil
		cell.Depose()
		ctx := timeout(t, 3*time.Second)
		if _, err := a.Backup(ctx, io.Discard); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrNoMaster) {
			t.Error(err)
		}
	})
}
