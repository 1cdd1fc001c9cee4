package server

import (
	"context"
	"net/http"

	"github.com/stoutlock/stout/master"
)

func transact(x *exchange) error {
	req := master.TransactionRequest{}
	if err := x.refuseHeaders("what a transaction depends on is in its body"); err != nil {
		return err
	}
	if err := x.request(&req.Transaction); err != nil {
		return err
	}
	req.Caller = x.transacting(&req.Transaction)
	var err error
	if req.Key, err = x.writeKey(req.Session); err != nil {
		return err
	}
	return x.dispatch(task{keyed: req.Key != "", run: func(ctx context.Context) (int, any, error) {
		done, err := x.master.Transact(ctx, req)
		if err != nil {
			return 0, nil, err
		}
		d := &document{json: done.TransactionResult}
		d.replayed(done.Replayed)
		return http.StatusOK, d, nil
	}})
}
