package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/lockapi"
)

// secret is that of a token which is about to be made. It is made here, and where
// it goes into a file it is there before the cell is asked: so it is not lost with
// an answer, and never travels in one.
type secret struct {
	text, sum string
	file      string // "" for standard output
}

const outUsage = "write the token into this new `file`, which nobody else can read, rather than to standard output"

// newSecret makes a secret, and the file that it is to be in.
func newSecret(file string) (*secret, error) {
	s := &secret{file: file}
	s.text, s.sum = client.NewSecret()
	if file == "" {
		return s, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		return nil, usagef("--out %s: the file is there already, and nothing is overwritten", clean(file))
	case err != nil:
		return nil, usagef("--out: %v", err)
	}
	_, err = f.WriteString(s.text + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		s.forget()
		return nil, &failure{code: exitFailed, message: err.Error()}
	}
	return s, nil
}

// forget removes the file of a secret that is none.
func (s *secret) forget() {
	if s.file != "" {
		_ = os.Remove(s.file)
	}
}

// made makes a token of the secret by a call that says by whose. A call whose
// outcome got lost is settled by what the cell makes of the secret.
func (a *app) made(ctx context.Context, s *secret, principal string, call func(context.Context, client.Access) (lockapi.Token, error)) (lockapi.Token, error) {
	asked, cancel := a.bounded(ctx)
	defer cancel()
	token, err := call(asked, a.client.Access())
	if err == nil {
		return token, nil
	}
	if !errors.Is(err, client.ErrOutcomeUnknown) {
		s.forget()
		return token, err
	}
	switch me, asErr := a.knows(ctx, s.text); {
	case asErr == nil && me == principal:
		return lockapi.Token{Principal: principal}, nil
	case errors.Is(asErr, client.ErrUnauthenticated):
		s.forget()
		return token, &failure{code: exitFailed, message: "the call was lost on its way: there is no such token, and nothing was changed"}
	}
	f := &failure{code: exitUnknown, message: "it is not known whether there is such a token: the cell did not say in time"}
	if s.file == "" {
		a.ui.printf("%s\n", s.text)
		return token, f.hint("if there is, it is the one that was printed; stout access whoami --token-file FILE tells")
	}
	return token, f.hint("if there is, it is the one in %s; stout access whoami --token-file %s tells", clean(s.file), clean(s.file))
}

// knows asks the cell whose token a secret is.
func (a *app) knows(ctx context.Context, secret string) (string, error) {
	c, err := client.Config{
		URLs: a.opts.servers, UserAgent: "stout/" + buildinfo.Version(), TLSSource: a.tlsSource(),
		Token: func(context.Context) (string, error) { return secret, nil },
	}.New()
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	me, err := c.Access().WhoAmI(ctx)
	return me.Principal, err
}

// show shows a token that was made: its secret is the answer, or in the file.
func (a *app) showSecret(s *secret, token lockapi.Token) error {
	if a.ui.json {
		if s.file == "" {
			token.Secret = s.text
		}
		return a.ui.object(token)
	}
	words := []string{"the token of " + clean(token.Principal)}
	if token.ID != "" {
		words = append(words, "id "+clean(token.ID))
	}
	if token.ExpiresAt != nil {
		words = append(words, "until "+token.ExpiresAt.UTC().Format("2006-01-02 15:04 MST"))
	}
	said := strings.Join(words, ", ")
	if s.file != "" {
		a.ui.note("%s, is in %s", said, clean(s.file))
		return nil
	}
	a.ui.printf("%s\n", s.text)
	a.ui.note("%s; it is shown this once", said)
	return nil
}
