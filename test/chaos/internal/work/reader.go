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

// reader always has reads under way at every replica, even while that replica
// is stopped or cut off. A master that returns must not first answer with old
// values. A faulty one would do so only for a moment, hence several reads at
// once.
type reader struct {
	title string
	opts  *Options
	calls []*raw // one for each replica
}

// readTime bounds a read. While a replica is stopped for longer, others follow,
// and so some begin after the next master's first changes.
const readTime = 2 * time.Second

// readsAtOnce is the number of reads that wait at a replica that does not
// answer.
const readsAtOnce = 4

func newReader(title string, opts *Options) *reader {
	w := &reader{title: title, opts: opts}
	for i, url := range opts.URLs {
		own := *opts
		own.URLs = []string{url}
		w.calls = append(w.calls, newRaw(fmt.Sprintf("%s%d", title, i+1), &own))
	}
	return w
}

func (w *reader) name() string { return w.title }

func (w *reader) close() {
	for _, c := range w.calls {
		c.close()
	}
}

func (w *reader) work(ctx context.Context, r *rand.Rand, epoch int) {
	var reading sync.WaitGroup
	for i := range readsAtOnce * len(w.calls) {
		c := w.calls[i/readsAtOnce]
		own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		reading.Go(func() {
			for ctx.Err() == nil {
				route := lockRoute(draw(own, epoch).path)
				switch d := deskOf(epoch); own.IntN(6) {
				case 0, 1:
					route = fileRoute(d.files()[own.IntN(len(d.files()))]) + "?as=json"
				case 2:
					route = listRoute(d.pair)
				case 3, 4:
					route = c.opts.grants.route(own, route)
				}
				within, cancel := context.WithTimeout(ctx, between(own, readTime/8, readTime))
				_ = c.call(within, own, http.MethodGet, route, nil, nil) // the answer is recorded
				cancel()
				cell.Pause(ctx, between(own, 200*time.Millisecond, 800*time.Millisecond))
			}
		})
	}
	reading.Wait()
}

// prove reads at each replica: every one of them must find the master.
func (w *reader) prove(ctx context.Context) error {
	errs := make([]error, len(w.calls))
	for i, c := range w.calls {
		r := rand.New(rand.NewPCG(w.opts.Seed, uint64(i)))
		errs[i] = c.insist(ctx, r, http.MethodGet, lockRoute("/chaos/prove/"+w.title), nil, nil)
	}
	return errors.Join(errs...)
}
