package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// belief is a time during which a client certainly believed in a hold.
type belief struct {
	from, to time.Time
	token    float64
	ended    bool // before the client released it
}

// contention: three clients contend for a lock, and its holder is cut off three
// times. At no time do two of them believe that they hold it.
func contention(w *world) {
	const clients, ttl = 3, 2 * time.Second
	c := w.shared()
	var holder atomic.Pointer[gates]
	var mu sync.Mutex
	var all []belief
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range clients {
		g, d := newGates(w, c), startDriver(w, w.command)
		d.do("connect", fields{"as": "c", "urls": g.urls()})
		running.Go(func() {
			if err := contend(d, g, w.prefix, ttl, stop, &holder, func(b belief) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, b)
			}); err != nil {
				w.Error(err)
			}
		})
	}
	for range 3 {
		w.eventually("a client holds the lock", func() error {
			if g := holder.Swap(nil); g != nil {
				g.cut()
				time.AfterFunc(ttl+2*time.Second, g.heal)
				return nil
			}
			return errors.New("none does")
		})
		time.Sleep(ttl + 3*time.Second)
	}
	close(stop)
	running.Wait()
	slices.SortFunc(all, func(a, b belief) int { return cmp.Compare(a.token, b.token) })
	ended := 0
	for i, b := range all {
		if b.ended {
			ended++
		}
		if i > 0 && b.from.Before(all[i-1].to) {
			w.Errorf("with token %v a client had the lock while the one with token %v believed in it, for %v", b.token, all[i-1].token, all[i-1].to.Sub(b.from))
		}
	}
	w.Logf("%d holds, of which %d ended", len(all), ended)
	if len(all) < 2*clients || ended == 0 {
		w.Errorf("there were %d holds, and %d ended by a cut; it must be more", len(all), ended)
	}
}

// contend takes a lock again and again, for a quarter of a second each, or for
// as long as its gates are cut. It notes how long the client believes in it.
func contend(d *driver, g *gates, path string, ttl time.Duration, stop <-chan struct{}, holder *atomic.Pointer[gates], note func(belief)) error {
	session := ""
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if session == "" {
			name := fmt.Sprintf("s%d", n)
			if _, err, _ := d.begin("open", fields{"cell": "c", "as": name, "ttl_ms": ttl.Milliseconds(), "timeout_ms": 2000}).try(); err != nil {
				continue
			}
			session = name
		}
		hold := fmt.Sprintf("h%d", n)
		got, err, answered := d.begin("lock", fields{"session": session, "as": hold, "path": path, "wait_ms": 3000}).try()
		switch {
		case !answered:
			return fmt.Errorf("lock: the driver does not answer")
		case err != nil && err.Code == "session_expired":
			session = ""
			continue
		case err != nil:
			continue
		}
		b := belief{token: got.number("token")}
		holder.Store(g)
		for began := time.Now(); time.Since(began) < 250*time.Millisecond || g.isCut(); time.Sleep(5 * time.Millisecond) {
			p := d.begin("held", fields{"hold": hold})
			state, _, _ := p.try()
			if !state.is("held") {
				b.ended = true
				break
			}
			if b.from.IsZero() {
				b.from = time.Now()
			}
			b.to = p.sent
		}
		holder.CompareAndSwap(g, nil)
		if !b.from.IsZero() && b.from.Before(b.to) {
			note(b)
		}
		if _, err, _ := d.begin("unlock", fields{"hold": hold, "timeout_ms": 1000}).try(); err != nil && err.Code == "session_expired" {
			session = ""
		}
	}
}
