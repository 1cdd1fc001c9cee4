package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// held is the expected content of a data directory. It is immutable.
type held struct {
	founded     bool
	quarantined string
	entries     map[uint64]string // their content, by index
	votes       map[string]string
	snapshot    uint64 // index of the latest
	content     string // of that snapshot
}

// with returns a changed copy.
func (h *held) with(change func(*held)) *held {
	out := *h
	out.entries, out.votes = maps.Clone(h.entries), maps.Clone(h.votes)
	if out.entries == nil {
		out.entries, out.votes = map[uint64]string{}, map[string]string{}
	}
	change(&out)
	return &out
}

// words describes the content. Before its founding is recorded, a replica has
// promised nothing, so the rest does not count.
func (h *held) words() []string {
	if h.quarantined != "" {
		return []string{"quarantined: " + h.quarantined}
	}
	if !h.founded {
		return []string{"not founded"}
	}
	var out []string
	for _, i := range slices.Sorted(maps.Keys(h.entries)) {
		out = append(out, fmt.Sprintf("%d=%s", i, h.entries[i]))
	}
	for _, k := range slices.Sorted(maps.Keys(h.votes)) {
		out = append(out, fmt.Sprintf("%s:%x", k, h.votes[k]))
	}
	return append(out, fmt.Sprintf("snapshot %d=%s", h.snapshot, h.content))
}

func (h *held) String() string { return strings.Join(h.words(), " ") }

// last returns the index of the last entry, or of the snapshot if that is
// higher.
func (h *held) last() uint64 {
	out := h.snapshot
	for i := range h.entries {
		out = max(out, i)
	}
	return out
}

// first returns the index of the first entry.
func (h *held) first() uint64 {
	out := h.last() + 1
	for i := range h.entries {
		out = min(out, i)
	}
	return out
}

// term returns the highest term of an entry.
func (h *held) term() (out uint64) {
	for _, e := range h.entries {
		var term uint64
		_, _ = fmt.Sscanf(e, "%d/", &term)
		out = max(out, term)
	}
	return out
}

// op is an operation on the directory. It takes effect whole or not at all, at
// some instant between its begin and its end.
type op struct {
	name  string
	apply func(*held)
}

// mark records the begin or the end of an op.
type mark struct {
	op  *op
	end bool
}

func (m mark) String() string {
	if m.end {
		return "end of " + m.op.name
	}
	return m.op.name
}

// opened records that a process has opened the directory and what it found.
// From then on the directory holds that, and earlier unfinished operations are
// over.
type opened struct{ *held }

func (opened) String() string { return "opened" }

// possible is a possible content of a directory at one instant, with the
// operations that have begun, have not ended, and have not taken effect in it.
type possible struct {
	*held
	left []*op
}

// worlds are all possible contents. Operations that overlap may take effect in
// any order.
type worlds []possible

func (w worlds) after(what any) worlds {
	if o, ok := what.(opened); ok {
		return worlds{{held: o.held}}
	}
	m := what.(mark)
	if m.end {
		return slices.DeleteFunc(w.closure(), func(p possible) bool { return slices.Contains(p.left, m.op) })
	}
	out := make(worlds, len(w))
	for i, p := range w {
		out[i] = possible{p.held, append(slices.Clip(p.left), m.op)}
	}
	return out
}

// closure returns what is possible a moment later, when any of the operations
// under way may have taken effect.
func (w worlds) closure() worlds {
	seen := map[string]bool{}
	var out worlds
	for todo := slices.Clone(w); len(todo) > 0; {
		p := todo[0]
		todo = todo[1:]
		if key := fmt.Sprint(p.left, p.held); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		out = append(out, p)
		for i, o := range p.left {
			todo = append(todo, possible{p.held.with(o.apply), slices.Delete(slices.Clone(p.left), i, i+1)})
		}
	}
	return out
}

// outcomes returns what is possible once the process at work is gone.
func (w worlds) outcomes() worlds {
	var out worlds
	for _, p := range w.closure() {
		out = append(out, possible{held: p.held})
	}
	return out
}
