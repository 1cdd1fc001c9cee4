package state_test

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// parseTransaction reads, for instance,
//
//	transaction s1 key=k digest=d guard=exclusive:1:/db if absent:/a then put:/a=x else del:/b
//
// The words after if, then and else are its conditions and steps:
//
//	at:REVISION:/a  exists:/a  absent:/a  held:MODE:TOKEN:/db  lives:S  free:/x
//	put:/a=x  create:/a=x  put-at:REVISION:/a=x  swap:REVISION:/a=x  own:/a=x  permanent:/a=x  seq:/a-=x
//	del:/a  del-at:REVISION:/a  below:/a/  get:/a  take:/x:MODE:HANDLE  release:/x:HANDLE
func parseTransaction(words []string) (state.Operation, error) {
	op := &state.Transaction{}
	part := ""
	for _, w := range words {
		var err error
		switch {
		case w == "if" || w == "then" || w == "else":
			part = w
		case part == "if":
			var c state.Condition
			c, err = parseCondition(w)
			op.If = append(op.If, c)
		case part == "then":
			var s state.Step
			s, err = parseStep(w)
			op.Then = append(op.Then, s)
		case part == "else":
			var s state.Step
			s, err = parseStep(w)
			op.Else = append(op.Else, s)
		case strings.HasPrefix(w, "key="):
			op.Key = w[4:]
		case strings.HasPrefix(w, "digest="):
			op.Digest = []byte(w[7:])
		case strings.HasPrefix(w, "guard="):
			op.Guards = append(op.Guards, parseSequencer(w[6:]))
		default:
			op.Session = w
		}
		if err != nil {
			return nil, err
		}
	}
	return op, nil
}

func parseSequencer(text string) state.Sequencer {
	f := strings.SplitN(text, ":", 3)
	token, _ := strconv.ParseUint(f[1], 10, 64)
	return state.Sequencer{Mode: parseMode(f[0]), Token: token, Path: f[2]}
}

func parseMode(text string) state.Mode {
	if text == "shared" {
		return state.Shared
	}
	return state.Exclusive
}

func parseCondition(word string) (state.Condition, error) {
	what, of, _ := strings.Cut(word, ":")
	switch what {
	case "at":
		revision, path := parseAt(of)
		return &state.FileAt{Path: path, Revision: revision}, nil
	case "exists":
		return &state.FileExists{Path: of, Exists: true}, nil
	case "absent":
		return &state.FileExists{Path: of}, nil
	case "held":
		return &state.GrantHeld{Sequencer: parseSequencer(of)}, nil
	case "lives":
		return &state.SessionLives{Session: of}, nil
	case "free":
		return &state.LockFree{Path: of}, nil
	}
	return nil, fmt.Errorf("unknown condition %q", word)
}

func parseAt(text string) (revision uint64, path string) {
	number, path, _ := strings.Cut(text, ":")
	revision, _ = strconv.ParseUint(number, 10, 64)
	return revision, path
}

func parseStep(word string) (state.Step, error) {
	what, of, _ := strings.Cut(word, ":")
	path, content, _ := strings.Cut(of, "=")
	switch what {
	case "put":
		return write(path, content, state.Write{}), nil
	case "create":
		return write(path, content, state.Write{When: state.IfAbsent}), nil
	case "put-at":
		revision, path := parseAt(path)
		return write(path, content, state.Write{When: state.IfRevision, Revision: revision}), nil
	case "swap": // put-at that returns the content if it fails
		revision, path := parseAt(path)
		return write(path, content, state.Write{When: state.IfRevision, Revision: revision, WithContent: true}), nil
	case "own":
		return write(path, content, state.Write{Owner: state.OwnedBy}), nil
	case "permanent":
		return write(path, content, state.Write{Owner: state.Permanent}), nil
	case "seq":
		return write(path, content, state.Write{Sequential: true}), nil
	case "seq-a", "seq-nobody": // checked for user:a, or for an anonymous caller
		return write(path, content, state.Write{Sequential: true, CheckedFor: map[string]string{"seq-a": "user:a", "seq-nobody": access.Anonymous}[what]}), nil
	case "del":
		return &state.Delete{Path: of}, nil
	case "del-at":
		revision, path := parseAt(of)
		return &state.Delete{Path: path, When: state.IfRevision, Revision: revision}, nil
	case "below":
		return &state.DeleteBelow{Prefix: of}, nil
	case "get":
		return &state.Get{Path: of}, nil
	case "take":
		f := append(strings.Split(of, ":"), "", "")
		return &state.Take{Path: f[0], Mode: parseMode(f[1]), Handle: f[2]}, nil
	case "release":
		path, handle, _ := strings.Cut(of, ":")
		return &state.Free{Path: path, Handle: handle}, nil
	}
	return nil, fmt.Errorf("unknown step %q", word)
}

// keyVerbs has the verbs of a ChangeKeys by their names in a scenario.
var keyVerbs = map[string]state.KeyVerb{"set": state.KeySet, "cas": state.KeyCAS, "lock": state.KeyLock, "unlock": state.KeyUnlock,
	"get": state.KeyGet, "get-or-empty": state.KeyGetOrEmpty, "get-tree": state.KeyGetTree, "check-index": state.KeyCheckRevision,
	"check-session": state.KeyCheckSession, "check-absent": state.KeyCheckAbsent, "delete": state.KeyDelete, "delete-cas": state.KeyDeleteCAS,
	"delete-tree": state.KeyDeleteTree}

// parseKeyStep reads, for instance, "lock:/a:content,session:s1,flags:3,delay:700,deletes".
func parseKeyStep(word string) state.KeyStep {
	parts := strings.Split(word, ",")
	f := append(strings.Split(parts[0], ":"), "", "")
	k := state.KeyStep{Verb: keyVerbs[f[0]], Path: f[1]}
	if k.Verb >= state.KeySet && k.Verb <= state.KeyUnlock {
		sum := sha256.Sum256([]byte(f[2]))
		if k.Sum = sum[:]; f[2] != "" {
			k.Content = []byte(f[2])
		}
	}
	if k.Verb == state.KeyLock {
		k.Ending = state.KeyStays
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, ":")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch name {
		case "session":
			k.Session = value
		case "index":
			k.Index = n
		case "flags":
			k.Flags = n
		case "delay":
			k.DelayMS = int64(n)
		case "deletes":
			k.Ending = state.KeyDeleted
		}
	}
	return k
}

func keyText(k state.Key) string {
	if k.File == nil {
		return "none"
	}
	return fields(fileText(k.File), opt("held-by", k.Session))
}

func keysText(r state.KeysResult) string {
	text := fields(r.Verdict.String(), opt("r", r.Revision))
	for _, f := range r.Failures {
		text += "; " + fields(fmt.Sprintf("step %d: %v", f.Step, f.Why), opt("r", f.Revision), opt("held-by", f.Session))
	}
	for i, keys := range r.Steps {
		for _, k := range keys {
			text += fmt.Sprintf("; %d: %s", i, keyText(k))
		}
	}
	return text
}

func write(path, content string, w state.Write) *state.Write {
	sum := sha256.Sum256([]byte(content))
	w.Path, w.Sum = path, sum[:]
	if content != "" {
		w.Content = []byte(content)
	}
	return &w
}

func fileText(f *state.File) string {
	return fields(f.Path, opt("r", f.Revision), opt("instance", f.Instance), opt("generation", f.Generation),
		opt("session", f.Session), opt("made", f.CreatedAt), opt("changed", f.ModifiedAt), opt("by", f.Principal),
		opt("flags", f.Flags), opt("locks", f.Locks), contentText(f.Content))
}

func contentText(content []byte) string {
	if content == nil {
		return ""
	}
	return fmt.Sprintf("%q", content)
}

func transactionText(r state.TransactionResult) string {
	text := fields(r.Verdict.String(), word("succeeded", r.Succeeded), opt("r", r.Revision), word("replayed", r.Replayed))
	if r.Guard != nil {
		text += fmt.Sprintf("; not held %v:%d:%s", r.Guard.Mode, r.Guard.Token, r.Guard.Path)
	}
	if f := r.Failure; f != nil {
		text += fmt.Sprintf("; step %d: %v", f.Step, f.Why)
		if f.Current != nil {
			text += ", is " + fileText(f.Current)
		}
		if l := f.Lock; l != nil {
			text += fmt.Sprintf(", held by %d, %d wait, delay=%d", l.Held, l.Waiters, l.DelayMS)
			for _, h := range l.Holders {
				text += "; " + fields(h.Session, word(h.Name, h.Name != ""), h.Mode.String(), opt("token", h.Token), opt("at", h.GrantedAt))
			}
		}
	}
	for _, s := range r.Steps {
		switch {
		case s.File != nil:
			text += "; " + fileText(s.File)
		case s.Hold != nil:
			text += "; " + holdText(s.Hold)
		default:
			text += "; " + fields(opt("deleted", s.Deleted), word("freed", s.Freed), word("nothing", s.Deleted == 0 && !s.Freed))
		}
	}
	return text
}
