package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// readHistory answers with what this replica remembers of a path, whoever is master.
// It looks through all that the replica remembers, so it takes turns with the lists.
func readHistory(x *exchange) error {
	x.node = x.query.of(paramPastOf)
	if err := lockapi.ValidatePath(x.node); err != nil {
		return err
	}
	limit := uint64(lockapi.DefaultHistoryLimit)
	if value, given := x.query[paramLimit.name]; given {
		var err error
		if limit, err = wholeNumber(paramLimit.name, value, 1, lockapi.MaxListLimit); err != nil {
			return err
		}
	}
	return x.answer(task{heavy: true, run: func(ctx context.Context) (int, any, error) {
		h, err := x.master.History(ctx, master.HistoryQuery{Caller: x.caller(), Path: x.node, Limit: int(limit)})
		if err == nil {
			x.c.Writer.Header()[lockapi.HeaderRevision] = []string{strconv.FormatUint(h.Revision, 10)}
		}
		return http.StatusOK, h, err
	}})
}

// readDeadlocks finds the sessions that wait for each other.
func readDeadlocks(x *exchange) error {
	x.node = top("")
	return x.readList(func(ctx context.Context, r master.Read) (any, error) { return x.master.Deadlocks(ctx, r) })
}
