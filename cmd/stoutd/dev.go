package main

import (
	"context"
	"fmt"
	"io"
)

// welcome is what a person who started a cell with --dev may try, shown when it
// serves. The address has all of them go to this very cell, whatever else
// runs.
const welcome = `A cell of one replica serves at %[1]s. Its data will be gone when it ends. Try:

  curl -s %[1]s/v1/cell
  stout --server %[1]s lock /jobs/demo -- sh -c 'echo "I alone run, with token $STOUT_TOKEN"'

or see it in a browser, live: %[1]s/ui/

`

// introduce shows the welcome as soon as a master is in office, unless ctx ends
// before.
func (p *process) introduce(ctx context.Context, w io.Writer) {
	if loc, err := p.master.Locate(ctx); err == nil {
		fmt.Fprintf(w, welcome, loc.URL)
	}
}
