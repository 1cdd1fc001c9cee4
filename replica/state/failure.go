package state

// Failure is why a transaction came to nothing. What stands in its way is told as it
// is now: the steps before have not been. All of it is of the state, and nothing of
// the master's memory: the same call again is answered the same.
type Failure struct {
	Step    int       `cbor:"1,keyasint"`           // its number in the branch taken, from 0
	Why     Verdict   `cbor:"2,keyasint"`           // Failed: a file's condition; TooLong: MaxResults; else what an Acquire comes to
	Current *File     `cbor:"3,keyasint,omitempty"` // as it is; nil where there is none
	Clash   Clash     `cbor:"4,keyasint,omitempty"`
	Whole   bool      `cbor:"5,keyasint,omitempty"` // Current has its content
	Lock    *Standing `cbor:"6,keyasint,omitempty"` // of a Take
	Path    string    `cbor:"7,keyasint,omitempty"` // Denied: the name
}

// Standing is how it stands with a lock.
type Standing struct {
	Holders []Holding `cbor:"1,keyasint,omitempty"` // the first of them, up to MaxStandingHolders
	Held    int       `cbor:"2,keyasint,omitempty"` // all of them
	Waiters int       `cbor:"3,keyasint,omitempty"`
	DelayMS int64     `cbor:"4,keyasint,omitempty"` // of the lock-delay in force, its whole length
}

// Holding is a hold as others are told of it.
type Holding struct {
	Session   string `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint,omitempty"` // of the session
	Handle    string `cbor:"3,keyasint,omitempty"`
	Mode      Mode   `cbor:"4,keyasint"`
	Token     uint64 `cbor:"5,keyasint"`
	GrantedAt int64  `cbor:"6,keyasint"`
	Principal string `cbor:"7,keyasint,omitempty"` // whose the session is
}

// MaxStandingHolders bounds the holders that a Standing has.
const MaxStandingHolders = 100

// describe puts into a failure what stands in the way.
func (f *Failure) describe(s *State, branch []Step) {
	if f == nil {
		return
	}
	switch step := branch[f.Step].(type) {
	case *Take:
		f.Lock = s.standing(step.Path)
	case *Write:
		f.Whole = step.Tell
		f.look(s)
	default:
		f.look(s)
	}
}

// look finds the file that stands in the way, if it is about one, as it is now.
func (f *Failure) look(s *State) {
	if f.Current != nil {
		f.Current, _ = s.File(f.Current.Path)
	}
	if f.Whole = f.Whole && f.Current != nil; !f.Whole {
		f.Current = f.Current.stat()
	}
}

func (s *State) standing(path string) *Standing {
	out := &Standing{}
	n, ok := s.Lock(path)
	if !ok {
		return out
	}
	out.Held, out.Waiters = n.Holders, n.Waiters
	if n.DelayID != 0 {
		out.DelayMS = n.DelayMS
	}
	for h := range s.Holders(path) {
		if len(out.Holders) == MaxStandingHolders {
			break
		}
		v, _ := s.Session(h.Session)
		out.Holders = append(out.Holders, Holding{Session: h.Session, Name: v.Name, Handle: h.Handle, Mode: h.Mode, Token: h.Token, GrantedAt: h.GrantedAt, Principal: v.Principal})
	}
	return out
}
