package lab

import (
	"strconv"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// maxEntries bounds the entries of all processes together.
const maxEntries = 1_000_000

func readEntries(p *Plan) error {
	a, c, text := p.Algorithm, &p.Case, p.Options.Entries
	if a.Family != spec.Mutex {
		if text != "" {
			return usage("--entries %s: %s is an election, without entries", text, a.Name)
		}
		return nil
	}
	c.Entries = make([]int, c.N)
	if text == "" {
		defaultEntries(p)
	} else if err := readCounts(c, text, a.Server); err != nil {
		return err
	}
	if a.Delay != nil {
		p.Config.Delay = a.Delay(*c)
	}
	return nil
}

func defaultEntries(p *Plan) {
	a, c := p.Algorithm, &p.Case
	switch {
	case a.Delay != nil && c.N == 6:
		c.Book = true
		c.Entries[0], c.Entries[1], c.Entries[2] = 1, 1, 1
	case a.Alone:
		c.Entries[0] = 1
	default:
		each(c, 1, a.Server)
	}
}

// each sets the number of entries of every process; a server has none.
func each(c *spec.Case, times int, server bool) {
	for id := range c.Entries {
		c.Entries[id] = times
	}
	if server && c.N > 1 {
		c.Entries[0] = 0
	}
}

func tooMany(c *spec.Case, text string) error {
	if all := sum(c.Entries); all > maxEntries {
		return usage("--entries %s: %d entries; want at most %d", text, all, maxEntries)
	}
	return nil
}

func readCounts(c *spec.Case, text string, server bool) error {
	if times, err := strconv.Atoi(text); err == nil && 0 < times && times <= maxEntries {
		each(c, times, server)
		return tooMany(c, text)
	}
	named := make([]bool, c.N)
	for _, word := range strings.Split(text, ",") {
		id, times, _ := strings.Cut(word, ":")
		i, err1 := strconv.Atoi(id)
		k, err2 := strconv.Atoi(times)
		if err1 != nil || err2 != nil || i < 0 || i >= c.N || k < 0 || k > maxEntries {
			return usage("--entries %q: want a number for all, or ID:TIMES,… with ids 0 … %d, and at most %d times", text, c.N-1, maxEntries)
		}
		if named[i] {
			return usage("--entries %q: duplicate id %d", text, i)
		}
		named[i], c.Entries[i] = true, k
	}
	if sum(c.Entries) == 0 {
		return usage("--entries %q: no process enters", text)
	}
	return tooMany(c, text)
}
