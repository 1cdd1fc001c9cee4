package server

import (
	"net/http"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// granted is the reply to a call that asks for a lock.
func granted(_ *exchange, _ *lockapi.AcquireLock, answer any, _ master.Outcome) (int, any) {
	if g := answer.(lockapi.Grant); g.State == lockapi.StateQueued {
		return http.StatusAccepted, g
	}
	return http.StatusOK, answer
}

// lockPath is the path of the lock or the file that the URL names.
func (x *exchange) lockPath() (path string, err error) {
	x.node, err = lockapi.UnescapePath(x.c.Param("path"))
	return x.node, err
}
