//go:build unix

package main

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
)

// getBackup answers with a backup of a cell that has what the scripts compare. Under
// the fault torn it breaks off.
func (c *fakeCell) getBackup(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	fault, refused := c.fault, c.judgeCall(r)
	c.mu.Unlock()
	if api, ok := refused.(*lockapi.Error); ok {
		writeError(w, api)
		return
	}
	if fault == noMaster {
		writeError(w, lockapi.Errorf(lockapi.CodeNoMaster, "no replica is in office"))
		return
	}
	h := lockapi.BackupHeader{
		Cell: "fake", CellID: "5cfd2797946bf3c3", Time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Release: "v1.2.3", Replica: "r1",
		Index: 9, Revision: 57, Token: 4,
		Contents: lockapi.BackupContents{Sessions: 1, Holds: 1, Waiters: 2, Locks: 1, Files: 3, ContentBytes: 2048, Rules: 1, Access: true},
	}
	w.Header().Set("Content-Type", lockapi.TypeBackup)
	w.Header().Set(lockapi.HeaderRevision, strconv.FormatUint(h.Revision, 10))
	_ = http.NewResponseController(w).Flush()
	err := backup.Write(w, h, func(w io.Writer) error {
		_, err := io.WriteString(w, "the state")
		if fault == torn {
			panic(http.ErrAbortHandler)
		}
		return err
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
