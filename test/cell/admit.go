package cell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// Stranger waits until a running replica reports that its data directory is not
// a member's, and returns that report.
func (r *Replica) Stranger(ctx context.Context) (*lockapi.Error, error) {
	var report *lockapi.Error
	err := Wait(ctx, r.ID+" reports that it is not a member", func(ctx context.Context) error {
		_, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil)
		if !errors.As(err, &report) || report.Command == "" {
			return fmt.Errorf("%s reports %v", lockapi.RouteReady, err)
		}
		return nil
	})
	return report, err
}

// Admit replaces the member's lost data directory with the running replica's
// new one, as `stout member replace` does. It returns when the replica is a
// voter and ready.
func (c *Cell) Admit(ctx context.Context, r *Replica) error {
	stranger, err := r.Stranger(ctx)
	if err != nil {
		return err
	}
	err = Wait(ctx, r.ID+" is admitted", func(ctx context.Context) error {
		var errs []error
		for _, other := range c.Others(r) {
			_, err := other.Call(ctx, http.MethodPost, lockapi.RouteMembers+"/"+r.ID+"/replace",
				lockapi.ReplaceMemberRequest{Directory: stranger.Directory}, nil)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	return Wait(ctx, r.ID+" is a voter and ready", func(ctx context.Context) error {
		if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil); err != nil {
			return err
		}
		var now lockapi.Members
		if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteMembers, nil, &now); err != nil {
			return err
		}
		seated := slices.ContainsFunc(now.Members, func(m lockapi.Member) bool {
			return m.ID == r.ID && m.Directory == stranger.Directory && m.Suffrage == lockapi.SuffrageVoter
		})
		if !seated || len(now.Members) != len(c.replicas) {
			return fmt.Errorf("the members are %+v", now.Members)
		}
		return nil
	})
}
