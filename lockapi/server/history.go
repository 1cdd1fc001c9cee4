package server

import (
	"net/http"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// past is the reply to a request for the history of a path.
func past(x *exchange, _ *lockapi.GetHistory, answer any, _ master.Outcome) (int, any) {
	x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(answer.(lockapi.History).Revision, 10)}
	return http.StatusOK, answer
}
