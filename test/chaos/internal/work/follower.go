package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// follower waits at every replica's door, by one blocking query after the
// other, for changes of a key that it writes itself. Beside that it reads the
// key there, so that the record shows which replica knew of a change.
type follower struct {
	*door
	indexes []uint64 // by replica: of its last answer
}

func newFollower(title string, opts *Options) *follower {
	return &follower{door: newDoor(title, opts), indexes: make([]uint64, len(opts.Doors))}
}

const beatKey = "chaos/beat/key"

func (w *follower) work(ctx context.Context, r *rand.Rand, _ int) {
	var running sync.WaitGroup
	for i, door := range w.opts.Doors {
		running.Go(func() {
			for ctx.Err() == nil {
				if w.await(ctx, i).status != http.StatusOK {
					cell.Pause(ctx, 50*time.Millisecond)
				}
			}
		})
		running.Go(func() {
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, answerTime)
				w.ask(within, door, http.MethodGet, "/v1/kv/"+beatKey+"?stale", nil)
				cancel()
				cell.Pause(ctx, 100*time.Millisecond)
			}
		})
	}
	for ctx.Err() == nil {
		w.put(ctx, r, beatKey, "")
		cell.Pause(ctx, between(r, 3*time.Second, 5*time.Second))
	}
	running.Wait()
}

// await waits at a replica for a change after its last answer.
func (w *follower) await(ctx context.Context, i int) *reply {
	a := w.ask(ctx, w.opts.Doors[i], http.MethodGet, fmt.Sprintf("/v1/kv/%s?stale&wait=10m&index=%d", beatKey, w.indexes[i]), nil)
	if a.index > 0 {
		w.indexes[i] = a.index
	}
	return a
}

// prove writes the key some times. Each time, every query must show the change.
func (w *follower) prove(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.opts.Seed, uint64(len(w.title))))
	for range 3 {
		before := w.texts
		errs := make([]error, len(w.opts.Doors))
		var waiting sync.WaitGroup
		for i := range w.opts.Doors {
			waiting.Go(func() {
				for {
					n, a := 0, w.await(ctx, i)
					if all := a.keys(); len(all) == 1 {
						_, _ = fmt.Sscanf(string(all[0].Value), w.author+", %d", &n)
					}
					if n > before {
						return
					}
					if ctx.Err() != nil {
						errs[i] = fmt.Errorf("the blocking query at %s did not end", w.opts.Doors[i])
						return
					}
					if a.status != http.StatusOK {
						cell.Pause(ctx, 50*time.Millisecond)
					}
				}
			})
		}
		err := until(ctx, "write a key", func() *reply { return w.put(ctx, r, beatKey, "") })
		waiting.Wait()
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}
