package server

import (
	"context"
	"net/http"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// transactionBody is a transaction of which it is known whether a session was
// given.
type transactionBody struct{ lockapi.Transaction }

// notGiven stands for what a body does not have. No JSON string is invalid UTF-8.
const notGiven = "\xff"

// Validate refuses an empty session, too: its transaction would be nobody's,
// where a caller whose variable was not set means a session.
func (t *transactionBody) Validate() error {
	switch t.Session {
	case "":
		return lockapi.Invalid("session", "session is empty; it is the id of an open session, or left out")
	case notGiven:
		t.Session = ""
	}
	return t.Transaction.Validate()
}

func transact(x *exchange) error {
	req := master.TransactionRequest{}
	if err := x.refuseHeaders("what a transaction depends on is in its body"); err != nil {
		return err
	}
	body := transactionBody{lockapi.Transaction{Session: notGiven}}
	if err := x.request(&body); err != nil {
		return err
	}
	req.Transaction = body.Transaction
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
