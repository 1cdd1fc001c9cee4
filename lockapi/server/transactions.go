package server

import (
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

// decodeTransaction reads a transaction.
func decodeTransaction(x *exchange) (*lockapi.Transact, error) {
	if err := x.refuseHeaders("what a transaction depends on is in its body"); err != nil {
		return nil, err
	}
	body := transactionBody{lockapi.Transaction{Session: notGiven}}
	if err := decode(x.body, &body); err != nil {
		return nil, err
	}
	if err := body.Validate(); err != nil {
		return nil, err
	}
	x.body = trimBody(x.body)
	key, err := x.writeKey(body.Session)
	return &lockapi.Transact{Key: key, Transaction: body.Transaction}, err
}

// transacted is the reply to a transaction.
func transacted(_ *exchange, _ *lockapi.Transact, answer any, out master.Outcome) (int, any) {
	d := &document{json: answer.(master.TransactionDone).TransactionResult}
	d.replayed(out.Replayed)
	return http.StatusOK, d
}
