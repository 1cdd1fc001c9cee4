package draw

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/lab"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

//go:embed play.html
var page []byte

// played is the run that the page reads.
type played struct {
	Title     string       `json:"title"`
	Line      string       `json:"line"`
	Verdict   string       `json:"verdict"`
	Good      bool         `json:"good"`
	Order     []int        `json:"order"`
	N         int          `json:"n"`
	Kinds     []string     `json:"kinds"`
	Colours   []string     `json:"colours"`
	Trace     []sim.Record `json:"trace"`
	Truncated bool         `json:"truncated"`
}

// HTML returns a self-contained page that plays the run: forwards and
// backwards, event by event, with the states of all processes and the messages
// in flight.
func HTML(r *lab.Result) []byte {
	p := played{
		Title: Title(r), Line: r.Plan.Algorithm.Line, Verdict: Verdict(r), Good: r.Good(), N: r.N,
		Trace: r.Outcome.Trace, Truncated: r.Outcome.Truncated,
	}
	for _, row := range layout(r).rows {
		p.Order = append(p.Order, row.id)
	}
	for i, k := range r.Plan.Algorithm.Kinds {
		p.Kinds = append(p.Kinds, k.Name)
		p.Colours = append(p.Colours, colour(i))
	}
	data, err := json.Marshal(p) // escapes <, > and &, so that it is valid in a script
	if err != nil {
		panic(err) // a struct of plain values
	}
	out := bytes.Replace(page, []byte("{{title}}"), []byte(html.EscapeString(p.Title)), 1)
	return bytes.Replace(out, []byte("{{run}}"), data, 1)
}
