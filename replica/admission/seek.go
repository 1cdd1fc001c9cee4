package admission

import (
	"context"
	"sync"
	"time"
)

// Finder asks and decides until its directory is a member's.
type Finder struct {
	Self Self
	// Others returns the names of the replicas to ask; nil for the founding
	// list.
	Others func(ctx context.Context) ([]string, error)
	// Ask asks another replica for its card.
	Ask func(ctx context.Context, name string) (Info, error)
	// Save stores an identity durably before it returns. From then on the
	// replica's own card shows that identity.
	Save func(Identity) error
	// Note receives each decision, in one goroutine.
	Note func(Decision)
}

// Pauses between two rounds of asking. A founding takes three rounds.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	askTimeout = time.Second
)

// Run returns when the directory is a member's, or with the error of ctx or
// Save.
func (s *Finder) Run(ctx context.Context) (Identity, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var answers map[string]Answer
		if !s.Self.settled() {
			names := s.Self.Names
			if s.Others != nil {
				names, s.Self.Unanswered = s.Others(ctx)
			}
			answers = AskAll(ctx, s.Self.ID, names, s.Ask)
			if err := s.learn(answers); err != nil {
				return s.Self.Identity, err
			}
		}
		d := Decide(s.Self, answers)
		if ctx.Err() != nil {
			return s.Self.Identity, ctx.Err()
		}
		if d.Step == Save || d.Step == Go {
			if err := s.Save(d.Identity); err != nil {
				return s.Self.Identity, err
			}
			s.Self.Identity = d.Identity
			pause = firstPause
		}
		s.Note(d)
		if d.Step == Go {
			return d.Identity, nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return s.Self.Identity, ctx.Err()
		}
	}
}

// learn notes which members a removed replica's cell has by now. The members that it
// knew may leave while it waits, and later ones may add it again.
func (s *Finder) learn(answers map[string]Answer) error {
	next := s.Self.Identity
	next.Known = *s.Self.Known.Learn(s.Self.CellID, answers)
	if next.Known.Index == s.Self.Known.Index {
		return nil
	}
	if err := s.Save(next); err != nil {
		return err
	}
	s.Self.Identity = next
	return nil
}

// AskLeader asks the named replicas, except one, at the same time. It returns
// what the first that leads the cell knows the asking directory to have stored.
// It does not wait for the others. The result is zero if none leads, or if ctx
// ends first.
func AskLeader(ctx context.Context, except, cellID string, names []string, ask func(context.Context, string) (Info, error)) Stored {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan Answer, len(names))
	asked := 0
	for _, name := range names {
		if name == except {
			continue
		}
		asked++
		go func() {
			card, err := ask(ctx, name)
			answers <- Answer{Info: card, Err: err}
		}()
	}
	for range asked {
		select {
		case a := <-answers:
			if a.Err == nil && a.Info.Leads && a.Info.CellID == cellID {
				return a.Info.Stored
			}
		case <-ctx.Done():
			return Stored{}
		}
	}
	return Stored{}
}

// AskAll asks the named replicas, except one, at the same time.
func AskAll(ctx context.Context, except string, names []string, ask func(context.Context, string) (Info, error)) map[string]Answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var (
		work    sync.WaitGroup
		mu      sync.Mutex
		answers = map[string]Answer{}
	)
	for _, name := range names {
		if name == except {
			continue
		}
		work.Go(func() {
			card, err := ask(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = Answer{Info: card, Err: err}
		})
	}
	work.Wait()
	return answers
}
