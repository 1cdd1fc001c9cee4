package server

import (
	"net/http"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
	"github.com/stoutlock/stout/master"
)

// transactionBody is a transaction that distinguishes an empty session from a
// missing one.
type transactionBody struct{ lockapi.Transaction }

// notGiven marks a missing field. A JSON string is never invalid UTF-8.
const notGiven = "\xff"

// Validate also refuses an empty session. The transaction would have no
// session, although a caller with an unset variable intends one.
func (t *transactionBody) Validate() error {
	switch t.Session {
	case "":
		return lockapi.Invalid("session", "session is empty; give the id of an open session, or omit it")
	case notGiven:
		t.Session = ""
	}
	return t.Transaction.Validate()
}

// decodeTransaction decodes a transaction.
func decodeTransaction(x *exchange) (*lockapi.Transact, error) {
	if err := x.refuseHeaders("a transaction has its conditions in the body"); err != nil {
		return nil, err
	}
	body := transactionBody{lockapi.Transaction{Session: notGiven}}
	if err := codec.Decode(x.body, &body); err != nil {
		return nil, err
	}
	if err := body.Validate(); err != nil {
		return nil, err
	}
	x.body = codec.Trim(x.body)
	key, err := x.writeKey(body.Session)
	return &lockapi.Transact{Key: key, Transaction: body.Transaction}, err
}

// transacted is the reply to a transaction.
func transacted(_ *exchange, _ *lockapi.Transact, answer any, out master.Outcome) (int, any) {
	d := &document{json: answer.(master.TransactionDone).TransactionResult}
	d.replayed(out.Replayed)
	return http.StatusOK, d
}
