package state

import (
	"crypto/sha256"
	"crypto/subtle"
	"iter"

	"github.com/stoutlock/stout/replica/state/access"
)

// Token proves that a caller is a principal. It stores only the hash of its
// secret. It is immutable.
type Token struct {
	ID        string `cbor:"1,keyasint"`
	Sum       []byte `cbor:"2,keyasint"` // SHA-256 of the secret
	Principal string `cbor:"3,keyasint"`
	Note      string `cbor:"4,keyasint,omitempty"`
	CreatedAt int64  `cbor:"5,keyasint,omitempty"` // Unix nanoseconds, set by the command that adds it
	ExpiresAt int64  `cbor:"6,keyasint,omitempty"` // Unix nanoseconds; 0 = never. The state does not check it; the caller does.
}

// Bounds of tokens.
const (
	MaxTokens = 20_000
	MaxNote   = 1024 // bytes
)

func (t *Token) sound() bool {
	return t.ID != "" && plain(t.ID) && len(t.Sum) == sha256.Size && access.IsUser(t.Principal) &&
		len(t.Note) <= MaxNote && t.ExpiresAt >= 0
}

func (t *Token) size() int {
	return 64 + len(t.ID) + len(t.Sum) + len(t.Principal) + len(t.Note)
}

// TokenResult is the result of AddToken and EnableAccess.
type TokenResult struct {
	Verdict Verdict
	Token   *Token // nil from Would if the operation would change something
}

// AddToken adds a token. The result is a TokenResult: Done, Full, or Conflict
// if another token has the secret.
type AddToken struct {
	Token Token `cbor:"1,keyasint"` // its CreatedAt is ignored
}

func (op *AddToken) wellFormed() bool { return op.Token.sound() }
func (op *AddToken) size() int        { return op.Token.size() }

func (op *AddToken) would(s *State) (Result, bool) { return s.wouldAdd(&op.Token) }

func (op *AddToken) do(e *editor, _ Result) Result {
	t := e.addToken(&op.Token)
	e.record(AccessChanged{Below: "/"})
	return TokenResult{Verdict: Done, Token: t}
}

func (s *State) wouldAdd(t *Token) (Result, bool) {
	if _, taken := s.tokens.Get(t.ID); taken {
		return nil, false
	}
	if _, taken := s.tokenBySum(t.Sum); taken {
		return TokenResult{Verdict: Conflict}, false
	}
	if s.tokens.Len() >= MaxTokens {
		return TokenResult{Verdict: Full}, false
	}
	return TokenResult{Verdict: Done}, true
}

func (e *editor) addToken(t *Token) *Token {
	added := *t
	added.CreatedAt = e.Now
	e.putToken(&added)
	return &added
}

// putToken and dropToken are rare, so an editor does not begin edits of these
// trees in advance.
func (e *editor) putToken(t *Token) {
	e.tokens.Edit().Put(t.ID, t)
	e.sums.Edit().Put(string(t.Sum), t)
}

func (e *editor) dropToken(t *Token) {
	e.tokens.Edit().Delete(t.ID)
	e.sums.Edit().Delete(string(t.Sum))
}

// DropToken removes a token. The result is Done or Nothing.
type DropToken struct {
	ID string `cbor:"1,keyasint"`
}

func (op *DropToken) wellFormed() bool { return true }
func (op *DropToken) size() int        { return 16 + len(op.ID) }

func (op *DropToken) would(s *State) (Result, bool) {
	_, ok := s.tokens.Get(op.ID)
	return doneIf(ok)
}

func (op *DropToken) do(e *editor, r Result) Result {
	t, _ := e.tokens.Get(op.ID)
	e.dropToken(t)
	e.record(AccessChanged{Below: "/"})
	return r
}

// Token finds a token by its id.
func (s *State) Token(id string) (*Token, bool) { return s.tokens.Get(id) }

// TokenCount returns the number of tokens.
func (s *State) TokenCount() int { return s.tokens.Len() }

// TokenOf finds the token with the secret that has this SHA-256. Its running
// time reveals nothing about existing secrets, because a guesser cannot choose
// the hashes.
func (s *State) TokenOf(secret [sha256.Size]byte) (*Token, bool) {
	t, ok := s.tokenBySum(secret[:])
	if !ok || subtle.ConstantTimeCompare(t.Sum, secret[:]) != 1 {
		return nil, false
	}
	return t, true
}

func (s *State) tokenBySum(sum []byte) (*Token, bool) { return s.sums.Get(string(sum)) }

// Tokens walks the tokens with ids after the given one.
func (s *State) Tokens(after string) iter.Seq[*Token] {
	return func(yield func(*Token) bool) {
		for t := range s.tokens.From(after) {
			if t.ID > after && !yield(t) {
				return
			}
		}
	}
}
