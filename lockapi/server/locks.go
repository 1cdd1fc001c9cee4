package server

import (
	"net/http"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// granted is the reply to a request for a lock.
func granted(_ *exchange, _ *lockapi.AcquireLock, answer any, _ master.Outcome) (int, any) {
	if g := answer.(lockapi.Grant); g.State == lockapi.StateQueued {
		return http.StatusAccepted, g
	}
	return http.StatusOK, answer
}

// lockPath returns the path of the lock or file in the URL.
func (x *exchange) lockPath() (path string, err error) {
	x.node, err = lockapi.UnescapePath(x.c.Param("path"))
	return x.node, err
}
