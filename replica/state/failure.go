package state

// Failure explains why a transaction did nothing. It describes the obstacle as
// it is now, without the transaction's earlier steps. It depends on the state
// alone and not on the master's memory, so repeating the call returns the same.
type Failure struct {
	Step     int         `cbor:"1,keyasint"`           // its index in the branch taken, from 0
	Why      Verdict     `cbor:"2,keyasint"`           // Failed: a file's condition; TooLong: MaxResults; Busy: MaxDeleted; Denied: a right; else the verdict of an Acquire
	Current  *File       `cbor:"3,keyasint,omitempty"` // as it is now; nil if there is no file
	Mismatch Mismatch    `cbor:"4,keyasint,omitempty"`
	Whole    bool        `cbor:"5,keyasint,omitempty"` // Current has its content
	Lock     *LockStatus `cbor:"6,keyasint,omitempty"` // set for a Take
	Path     string      `cbor:"7,keyasint,omitempty"` // Denied: the name
}

// LockStatus describes a lock's present holders, waiters and lock-delay.
type LockStatus struct {
	Holders []Holding `cbor:"1,keyasint,omitempty"` // the first MaxStatusHolders of them
	Held    int       `cbor:"2,keyasint,omitempty"` // the number of all holders
	Waiters int       `cbor:"3,keyasint,omitempty"`
	DelayMS int64     `cbor:"4,keyasint,omitempty"` // full length of the lock-delay in force
}

// Holding is a hold as shown to other sessions.
type Holding struct {
	Session   string `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint,omitempty"` // of the session
	Handle    string `cbor:"3,keyasint,omitempty"`
	Mode      Mode   `cbor:"4,keyasint"`
	Token     uint64 `cbor:"5,keyasint"`
	GrantedAt int64  `cbor:"6,keyasint"`
	Principal string `cbor:"7,keyasint,omitempty"` // the session's principal
}

// MaxStatusHolders bounds the holders listed in a LockStatus.
const MaxStatusHolders = 100

// describe adds to a failure what is in the way.
func (f *Failure) describe(s *State, branch []Step) {
	if f == nil {
		return
	}
	switch step := branch[f.Step].(type) {
	case *Take:
		f.Lock = s.lockStatus(step.Path)
	case *Write:
		f.Whole = step.WithContent
		f.look(s)
	default:
		f.look(s)
	}
}

// look sets Current to the file in the way as it is now, if the failure is
// about a file.
func (f *Failure) look(s *State) {
	if f.Current != nil {
		f.Current, _ = s.File(f.Current.Path)
	}
	if f.Whole = f.Whole && f.Current != nil; !f.Whole {
		f.Current = f.Current.stat()
	}
}

func (s *State) lockStatus(path string) *LockStatus {
	out := &LockStatus{}
	n, ok := s.Lock(path)
	if !ok {
		return out
	}
	out.Held, out.Waiters = n.Holders, n.Waiters
	if n.DelayID != 0 {
		out.DelayMS = n.DelayMS
	}
	for h := range s.Holders(path) {
		if len(out.Holders) == MaxStatusHolders {
			break
		}
		v, _ := s.Session(h.Session)
		out.Holders = append(out.Holders, Holding{Session: h.Session, Name: v.Name, Handle: h.Handle, Mode: h.Mode, Token: h.Token, GrantedAt: h.GrantedAt, Principal: v.Principal})
	}
	return out
}
