package client_test

import (
	"net/http/httptest"

	"github.com/stoutlock/stout/client"
)

// cellURL starts a cell in memory for one example. It serves until the test
// program ends.
func cellURL() string { return httptest.NewServer(client.NewFakeCell()).URL }
