package lockapi

import (
	"cmp"
	"fmt"
)

// Validate reports the first invalid field, by its place such as
// then[0].put.path, or nil.
func (t *Transaction) Validate() error {
	if n := len(t.If) + len(t.Then) + len(t.Else); n > MaxTransactionParts {
		return Invalid("body", "the transaction has %d conditions and operations; at most %d are allowed", n, MaxTransactionParts)
	}
	for i := range t.If {
		if err := t.If[i].validate(); err != nil {
			return placed(fmt.Sprintf("if[%d]", i), err)
		}
	}
	return cmp.Or(t.validate("then", t.Then), t.validate("else", t.Else))
}

func (t *Transaction) validate(name string, branch []Operation) error {
	for i := range branch {
		if err := branch[i].validate(t.Session); err != nil {
			return placed(fmt.Sprintf("%s[%d]", name, i), err)
		}
	}
	return nil
}

// placed prefixes the field of err with its place.
func placed(place string, err error) error {
	e := err.(*Error)
	if e.Field != "" {
		place += "." + e.Field
	}
	return Invalid(place, "%s: %s", place, e.Detail)
}

// validate checks a condition, which must have exactly one kind.
func (c *Condition) validate() error {
	kinds := count(c.File != "", c.Sequencer != "", c.Session != "", c.Lock != "")
	switch {
	case kinds != 1:
		return Invalid("", "a condition must have exactly one of file, sequencer, session and lock; this one has %d of them", kinds)
	case c.File == "" && (c.Revision != nil || c.Exists != nil):
		return Invalid("file", "revision and exists need a file: add file")
	case c.Lock == "" && c.State != "":
		return Invalid("lock", "state needs a lock: add lock")
	case c.File != "":
		return c.validateFile()
	case c.Sequencer != "":
		_, err := ParseSequencer(c.Sequencer)
		return named("sequencer", err)
	case c.Lock != "":
		if c.State != StateFree {
			return Invalid("state", "state is %q; it must be %q", Clip(c.State), StateFree)
		}
		return named("lock", ValidatePath(c.Lock))
	}
	return nil
}

func (c *Condition) validateFile() error {
	switch {
	case (c.Revision == nil) == (c.Exists == nil):
		return Invalid("revision", "the condition of a file must have either revision or exists")
	case c.Revision != nil && (*c.Revision == 0 || *c.Revision > MaxToken):
		return Invalid("revision", "revision is %d; it must be within 1..%d", *c.Revision, uint64(MaxToken))
	}
	return named("file", ValidatePath(c.File))
}

// validate checks an operation of a transaction with the given session.
func (o *Operation) validate(session string) error {
	kinds := count(o.Put != nil, o.Create != nil, o.CreateSequential != nil, o.Delete != nil, o.Get != nil, o.Acquire != nil, o.Release != nil)
	if kinds != 1 {
		return Invalid("", "an operation must have exactly one of put, create, create_sequential, delete, get, acquire and release; this one has %d of them", kinds)
	}
	switch {
	case o.Put != nil:
		return inside("put", o.Put.validate(session, ""))
	case o.Create != nil:
		return inside("create", o.Create.validate(session, ""))
	case o.CreateSequential != nil:
		return inside("create_sequential", o.CreateSequential.validate(session, sequenceNumber))
	case o.Delete != nil:
		return inside("delete", ValidatePath(o.Delete.Path))
	case o.Get != nil:
		return inside("get", ValidatePath(o.Get.Path))
	case o.Acquire != nil:
		return inside("acquire", o.Acquire.validate(session))
	}
	return inside("release", o.Release.validate(session))
}

// sequenceNumber has the length of the number that is appended to the path of a
// sequential file.
const sequenceNumber = "0000000000000000"

func (w *WriteOperation) validate(session, number string) error {
	size, field := 0, "content"
	switch {
	case w.Content != nil && w.ContentBase64 != nil:
		return Invalid("content_base64", "content and content_base64 are both given; give one of them")
	case w.Content != nil:
		size = len(*w.Content)
	case w.ContentBase64 != nil:
		size, field = len(*w.ContentBase64), "content_base64"
	}
	if size > MaxFileBytes {
		return Invalid(field, "the content has %d bytes; at most %d are allowed", size, MaxFileBytes)
	}
	if w.Ephemeral != nil && *w.Ephemeral && session == "" {
		return Invalid("ephemeral", "an ephemeral file is deleted with its session: add session to the transaction")
	}
	return ValidatePath(w.Path + number)
}

func (a *AcquireOperation) validate(session string) error {
	r := LockRequest{Session: session, Handle: a.Handle, Mode: a.Mode, Limit: a.Limit, LockDelayMS: a.LockDelayMS}
	if r.Mode == "" {
		r.Mode = Exclusive
	}
	if session == "" {
		return Invalid("path", "a lock needs a session: add session to the transaction")
	}
	return cmp.Or(r.Validate(), ValidatePath(a.Path))
}

func (r *ReleaseOperation) validate(session string) error {
	switch {
	case session == "":
		return Invalid("path", "a lock needs a session: add session to the transaction")
	case r.Token > MaxToken:
		return Invalid("token", "token is %d; it must be at most %d", r.Token, uint64(MaxToken))
	}
	return cmp.Or(ValidateHandle(r.Handle), ValidatePath(r.Path))
}

func count(all ...bool) (n int) {
	for _, one := range all {
		if one {
			n++
		}
	}
	return n
}

func named(field string, err error) error {
	if err == nil {
		return nil
	}
	e := err.(*Error)
	e.Field = field
	return e
}

// inside prefixes the field with the operation's name.
func inside(name string, err error) error {
	if err == nil {
		return nil
	}
	e := err.(*Error)
	return named(name+"."+e.Field, e)
}
