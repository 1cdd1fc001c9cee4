package state_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

var kinds = func() map[string]state.Kind {
	m := map[string]state.Kind{}
	for k := state.OpenOffice; k <= state.TellSum; k++ {
		m[k.String()] = k
	}
	return m
}()

// parseCommand reads, for instance, "acquire S /path shared limit=2 h=x wait".
func parseCommand(w []string) (state.Command, error) {
	c := state.Command{Kind: kinds[w[0]]}
	if c.Kind == 0 {
		return c, fmt.Errorf("unknown command %q", w[0])
	}
	a := parseArgs(w[1:])
	for _, word := range a.plain {
		switch {
		case word == "wait":
			c.Wait = state.WhileHot
		case word == "keep":
			c.Wait = state.Keep
		case word == "undo":
			c.Undo = true
		case word == "shared":
			c.Mode = state.Shared
		case word == "exclusive":
			c.Mode = state.Exclusive
		case strings.HasPrefix(word, "/"):
			c.Path = word
		case c.Kind == state.OpenOffice:
			c.Master = word
		default:
			c.Session = word
		}
	}
	if c.Kind == state.Acquire && c.Mode == 0 {
		c.Mode = state.Exclusive
	}
	c.Handle, c.Name, c.Key = a.str("h"), a.str("name"), a.str("key")
	if d := a.str("digest"); d != "" {
		c.Digest = []byte(d)
	}
	if d := a.str("sum"); d != "" {
		c.Digest, a.err = hex.DecodeString(d)
	}
	c.Limit, c.DelayMS, c.TTLMS = a.num("limit", 0), a.num("delay", 0), a.num("ttl", 0)
	c.Token, c.Seq, c.Term = uint64(a.num("token", 0)), uint64(a.num("seq", 0)), uint64(a.num("made-for", 0))
	return c, errors.Join(a.err, a.unused())
}

// args are the words of a line: plain ones, and name=value.
type args struct {
	plain []string
	named map[string]string
	err   error
}

func parseArgs(words []string) *args {
	a := &args{named: map[string]string{}}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			a.named[name] = value
		} else {
			a.plain = append(a.plain, w)
		}
	}
	return a
}

func (a *args) at(i int) string {
	if i < len(a.plain) {
		return a.plain[i]
	}
	return ""
}

func (a *args) str(name string) string {
	v := a.named[name]
	delete(a.named, name)
	return v
}

func (a *args) num(name string, otherwise int64) int64 {
	v := a.str(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	a.err = errors.Join(a.err, err)
	return n
}

func (a *args) unused() error {
	for name := range a.named {
		return fmt.Errorf("unknown argument %q", name)
	}
	return nil
}
