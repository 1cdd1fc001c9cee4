package state_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// parsers has the parsers for the arguments of the scenarios' operations, by name.
var parsers = map[string]func(a *args) state.Operation{
	"open-office": func(a *args) state.Operation {
		return &state.OpenOffice{Master: a.word(), Term: a.unsigned("made-for")}
	},
	"close-office": func(*args) state.Operation { return &state.CloseOffice{} },
	"open-session": func(a *args) state.Operation {
		return &state.OpenSession{Session: a.word(), Name: a.str("name"), TTLMS: a.num("ttl", 0), Key: a.str("key"), Digest: a.bytes("digest")}
	},
	"close-session": func(a *args) state.Operation {
		return &state.CloseSession{Delays: a.flag("delays"), Session: a.word()}
	},
	"change-keys": func(a *args) state.Operation {
		op := &state.ChangeKeys{}
		for len(a.plain) > 0 {
			op.Steps = append(op.Steps, parseKeyStep(a.word()))
		}
		return op
	},
	"expire-session": func(a *args) state.Operation {
		return &state.ExpireSession{Session: a.word(), SilentMS: a.num("silent", 0)}
	},
	"acquire": func(a *args) state.Operation {
		op := &state.Acquire{Path: a.path(), Handle: a.str("h"), Mode: state.Exclusive, Limit: a.num("limit", 0), DelayMS: a.num("delay", 0), Priority: uint8(a.num("priority", 0))}
		if with := a.str("with"); with != "" {
			op.With = strings.Split(with, ",")
		}
		for word, set := range map[string]func(){
			"exclusive": func() {},
			"shared":    func() { op.Mode = state.Shared },
			"wait":      func() { op.Wait = state.WhileConnected },
			"keep":      func() { op.Wait = state.Persistent },
		} {
			if a.flag(word) {
				set()
			}
		}
		op.Session = a.word()
		return op
	},
	"release": func(a *args) state.Operation {
		return &state.Release{Path: a.path(), Handle: a.str("h"), Token: a.unsigned("token"), Forced: a.flag("forced"), Session: a.word()}
	},
	"withdraw": func(a *args) state.Operation {
		return &state.Withdraw{Path: a.path(), Handle: a.str("h"), Seq: a.unsigned("seq"), Undo: a.flag("undo"), Session: a.word()}
	},
	"end-delay":  func(a *args) state.Operation { return &state.EndDelay{Path: a.path(), ID: a.unsigned("seq")} },
	"mark-state": func(*args) state.Operation { return &state.MarkState{} },
	"tell-sum":   func(a *args) state.Operation { return &state.ReportSum{Entry: a.unsigned("seq"), Sum: a.hex("sum")} },
	"note-members": func(a *args) state.Operation {
		op := &state.NoteMembers{}
		for len(a.plain) > 0 {
			id, directory, _ := strings.Cut(a.word(), "/")
			op.Members = append(op.Members, state.Member{ID: id, Directory: directory, RaftAddr: id + ":7201"})
		}
		return op
	},
	"put-member": func(a *args) state.Operation {
		op := &state.PutMember{Member: state.Member{RaftAddr: a.str("raft"), URL: a.str("url"), Stays: a.flag("stays")}}
		op.Member.ID, op.Member.Directory, _ = strings.Cut(a.word(), "/")
		return op
	},
	"raise-level": func(a *args) state.Operation { return &state.RaiseLevel{Level: a.unsigned("to")} },
}

// parseOperation reads, for instance, "acquire S /path shared limit=2 h=x
// wait".
func parseOperation(w []string) (state.Operation, error) {
	if w[0] == "transaction" {
		return parseTransaction(w[1:])
	}
	parse := parsers[w[0]]
	if parse == nil {
		return nil, fmt.Errorf("unknown operation %q", w[0])
	}
	a := parseArgs(w[1:])
	op := parse(a)
	if len(a.plain) > 0 {
		return nil, fmt.Errorf("unknown word %q", a.plain[0])
	}
	return op, errors.Join(a.err, a.unused())
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

// pop removes and returns the first plain word that is wanted.
func (a *args) pop(wanted func(word string) bool) string {
	i := slices.IndexFunc(a.plain, wanted)
	if i < 0 {
		return ""
	}
	word := a.plain[i]
	a.plain = slices.Delete(a.plain, i, i+1)
	return word
}

func (a *args) word() string { return a.pop(func(string) bool { return true }) }

func (a *args) path() string {
	return a.pop(func(word string) bool { return strings.HasPrefix(word, "/") })
}

func (a *args) flag(name string) bool {
	return a.pop(func(word string) bool { return word == name }) != ""
}

func (a *args) bytes(name string) []byte {
	if v := a.str(name); v != "" {
		return []byte(v)
	}
	return nil
}

func (a *args) hex(name string) []byte {
	v, err := hex.DecodeString(a.str(name))
	a.err = errors.Join(a.err, err)
	return v
}

func (a *args) unsigned(name string) uint64 { return uint64(a.num(name, 0)) }

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
