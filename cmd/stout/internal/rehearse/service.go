package rehearse

import (
	"slices"
	"time"
)

// Service is what was seen of one kind of calls.
type Service struct {
	Attempts int            `json:"attempts"`
	Failed   int            `json:"failed"`
	By       map[string]int `json:"failed_by,omitempty"` // code, or why there was no answer
	// GapMS is the longest time without an attempt that did its work, which began
	// at FromMS after the change; UsualMS is that before the change. LaterMS is that
	// which began when the new office was seen already: the change is not its cause.
	GapMS   float64 `json:"longest_gap_ms"`
	FromMS  float64 `json:"gap_from_ms"`
	UsualMS float64 `json:"usual_gap_ms"`
	LaterMS float64 `json:"later_gap_ms"`
	// Back is when the gap was over.
	Back time.Duration `json:"-"`
}

// ServiceOf judges attempts between begin and end, with a change and, later, the
// first sight of the new office between. A gap is from one that did its work to the
// next one, by when they ended, or to the end.
func ServiceOf(attempts []Attempt, begin, change, office, end time.Duration) Service {
	out := Service{By: map[string]int{}, Back: change}
	var done []time.Duration
	for _, a := range attempts {
		if a.Ended < begin || a.Ended > end {
			continue
		}
		out.Attempts++
		if a.Failed != "" {
			out.Failed++
			out.By[a.Failed]++
			continue
		}
		done = append(done, a.Ended)
	}
	slices.Sort(done)
	last := begin
	for _, at := range append(done, end) {
		switch gap := toMS(at - last); {
		case at <= change:
			out.UsualMS = max(out.UsualMS, gap)
		case last >= office:
			out.LaterMS = max(out.LaterMS, gap)
		case gap > out.GapMS:
			out.GapMS, out.FromMS, out.Back = gap, toMS(last-change), at
		}
		last = at
	}
	return out
}

func toMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
