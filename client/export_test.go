package client

import "net/http"

// NewFakeCell is a cell of one replica in memory, for the examples.
func NewFakeCell() http.Handler { return newFakeCell() }
