package rights

import (
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// ListPath returns the path at which a list by prefix is authorized. Everything the
// list shows is at or below that path, or is checked item by item.
func ListPath(prefix string) string {
	if trimmed := strings.TrimSuffix(prefix, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}

// Sequential returns a possible name of a sequential file: a rule for that name
// also covers the others.
func Sequential(prefix string) string {
	return prefix + strings.Repeat("0", lockapi.SequentialDigits)
}

// OfTransaction returns the right for a transaction as a whole, and appends
// those for its parts.
func OfTransaction(t *lockapi.Transaction, to []Ask) (Right, []Ask) {
	for _, c := range t.If {
		switch {
		case c.File != "":
			to = append(to, Ask{Right: ReadAt, Path: c.File})
		case c.Lock != "":
			to = append(to, Ask{Right: ReadAt, Path: c.Lock})
		case c.Session != "":
			to = append(to, Ask{Right: Observe, Session: c.Session})
		default:
			q, _ := lockapi.ParseSequencer(c.Sequencer) // it is valid
			to = append(to, Ask{Right: ReadAt, Path: q.Path})
		}
	}
	for _, branch := range [][]lockapi.Operation{t.Then, t.Else} {
		for i := range branch {
			to = ofOperation(&branch[i], to)
		}
	}
	if t.Session == "" && len(to) > 0 {
		return KnownCaller, to
	}
	return Known, to // for a transaction without parts, or with releases only
}

// ofOperation appends the right for an operation. A release of the session's
// own hold needs none.
func ofOperation(o *lockapi.Operation, to []Ask) []Ask {
	switch {
	case o.Put != nil:
		to = append(to, Ask{Right: WriteAt, Path: o.Put.Path})
	case o.Create != nil:
		to = append(to, Ask{Right: WriteAt, Path: o.Create.Path})
	case o.CreateSequential != nil:
		to = append(to, Ask{Right: NameAt, Path: Sequential(o.CreateSequential.Path)})
	case o.Delete != nil:
		to = append(to, Ask{Right: WriteAt, Path: o.Delete.Path})
	case o.Get != nil:
		to = append(to, Ask{Right: ReadAt, Path: o.Get.Path})
	case o.Acquire != nil:
		to = append(to, Ask{Right: LockAt, Path: o.Acquire.Path})
	case o.Release == nil:
		to = append(to, Ask{Right: Undecided})
	}
	return to
}

// OfKeys appends the rights for all operations. A lock is also written.
func OfKeys(c *lockapi.ChangeKeys, to []Ask) []Ask {
	for i := range c.Operations {
		o := &c.Operations[i]
		switch o.Verb {
		case lockapi.KeyLock:
			to = append(to, Ask{Right: LockAt, Path: o.Path}, Ask{Right: WriteAt, Path: o.Path})
		case lockapi.KeySet, lockapi.KeyCAS, lockapi.KeyUnlock, lockapi.KeyDelete, lockapi.KeyDeleteCAS:
			to = append(to, Ask{Right: WriteAt, Path: o.Path})
		case lockapi.KeyDeleteTree:
			to = append(to, Ask{Right: WriteBelow, Path: directoryOf(o.Path)})
		case lockapi.KeyGetTree:
			// The state counts all keys against the size of an answer: a caller that
			// does not see some of them could measure those.
			to = append(to, Ask{Right: ReadBelow, Path: directoryOf(o.Path)})
		case lockapi.KeyGet, lockapi.KeyGetOrEmpty, lockapi.KeyCheckIndex, lockapi.KeyCheckSession, lockapi.KeyCheckNotExists:
			to = append(to, Ask{Right: ReadAt, Path: o.Path})
		default:
			to = append(to, Ask{Right: Undecided})
		}
		if o.Session != "" && (o.Verb == lockapi.KeyLock || o.Verb == lockapi.KeyUnlock) {
			to = append(to, Ask{Right: NoCaller, Session: o.Session, Uses: true})
		}
	}
	return to
}

// directoryOf returns the directory that has every path with a prefix.
func directoryOf(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		return prefix[:i]
	}
	return "/"
}
