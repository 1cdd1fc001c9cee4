// Package bubble is a program that prints everything that could make two runs
// of one seed differ. It is built through package overlay and run by its test.
package bubble

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"maps"
	oldrand "math/rand"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/test/internal/overlay/seed"
)

var (
	seeds  = flag.String("seeds", "1", "seeds to run, separated by commas")
	trace  = flag.Bool("trace", false, "print the trace, not only its hash")
	beside = flag.Bool("beside", false, "run goroutines outside the bubble that are busy with the real clock")
)

// global is created outside any bubble.
var global = func() map[string]int {
	m := make(map[string]int)
	for i := range 40 {
		m["g"+strconv.Itoa(i)] = i
	}
	return m
}()

var globalSync sync.Map

func TestRun(t *testing.T) {
	runtime.GOMAXPROCS(1)
	for i := range 40 {
		globalSync.Store("s"+strconv.Itoa(i), i)
	}
	if *beside {
		bother(t)
	}
	for s := range strings.SplitSeq(*seeds, ",") {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed.Set(n)
		var w *world
		synctest.Test(t, func(t *testing.T) { w = run(t) })
		seed.Set(0)
		show(s, w.trace.String())
	}
}

// show prints the trace, or the hash of each kind of line in it, sorted by
// kind.
func show(seed, text string) {
	if *trace {
		fmt.Print(text)
		return
	}
	kinds := map[string]hash.Hash64{"all": fnv.New64a()}
	for line := range strings.Lines(text) {
		kind := strings.Fields(line)[1]
		if kinds[kind] == nil {
			kinds[kind] = fnv.New64a()
		}
		_, _ = io.WriteString(kinds[kind], line)
		_, _ = io.WriteString(kinds["all"], line)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("hash %s %s %016x\n", seed, kind, kinds[kind].Sum64())
	}
}

// bother runs short-lived work on real timers outside the bubble, and makes
// garbage.
func bother(t *testing.T) {
	for i := range 4 {
		go func() {
			for t.Context().Err() == nil {
				time.Sleep(time.Duration(50+i) * time.Microsecond)
				select {
				case <-t.Context().Done():
				case <-time.After(time.Microsecond):
				}
				_ = rand.N(10)
				runtime.Gosched()
			}
		}()
	}
}

// world is shared by the parts of one run.
type world struct {
	mu    sync.Mutex
	trace strings.Builder
	wg    sync.WaitGroup
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(&w.trace, "%d ", time.Now().UnixNano())
	fmt.Fprintf(&w.trace, format, args...)
	w.trace.WriteByte('\n')
}

func run(t *testing.T) *world {
	w := &world{}
	for _, part := range []func(*testing.T){w.selects, w.timers, w.pair, w.maps, w.numbers, w.locks, w.contexts, w.yields, w.messages, w.calls, w.long} {
		w.wg.Go(func() { part(t) })
	}
	w.wg.Wait()
	return w
}

func (w *world) selects(*testing.T) {
	a, b := make(chan int), make(chan int, 3)
	for i := range 40 {
		w.wg.Go(func() {
			for range 40 {
				select {
				case a <- i:
				case b <- i:
				case v := <-a:
					w.note("select %d a %d", i, v)
				case v := <-b:
					w.note("select %d b %d", i, v)
				case <-time.After(time.Millisecond):
					w.note("select %d late", i)
				}
			}
		})
	}
}

func (w *world) timers(*testing.T) {
	for round := range 20 {
		for i := range 10 {
			time.AfterFunc(time.Duration(round)*time.Millisecond, func() { w.note("timer %d %d", round, i) })
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range 20 {
		<-tick.C
		w.note("tick %d", i)
	}
}

var pairs int

// pair waits for two timers in one select. In every other run of the process,
// the first one has the lower address.
func (w *world) pair(*testing.T) {
	time.Sleep(time.Second) // no timer of another part is due
	a, b := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	pairs++
	if (reflect.ValueOf(a.C).Pointer() < reflect.ValueOf(b.C).Pointer()) == (pairs%2 == 0) {
		a, b = b, a
	}
	a.Reset(time.Millisecond)
	b.Reset(30 * time.Millisecond)
	for range 10 {
		select {
		case <-a.C:
			a.Reset(time.Millisecond)
		case <-b.C:
		}
	}
	for i := range 10 {
		time.AfterFunc(time.Millisecond, func() { w.note("pair %d", i) })
	}
	time.Sleep(2 * time.Millisecond)
}

func (w *world) maps(*testing.T) {
	own := make(map[int]string)
	for i := range 100 {
		own[i*7] = "x"
	}
	few := map[string]int{"a": 1, "b": 2, "c": 3}
	keyed := make(map[any]int)
	for i := range 30 {
		keyed[strconv.Itoa(i)] = i
		keyed[float64(i)] = i
	}
	for range 5 {
		time.Sleep(time.Millisecond)
		for k := range own {
			w.note("map-own %d", k)
		}
		for k := range few {
			w.note("map-few %s", k)
		}
		for k := range global {
			w.note("map-global %s", k)
		}
		for k := range keyed {
			w.note("map-keyed %v", k)
		}
		globalSync.Range(func(k, _ any) bool { w.note("map-sync %v", k); return true })
	}
}

func (w *world) numbers(t *testing.T) {
	for range 5 {
		w.note("old-number %d", oldrand.Int63())
		w.note("text %s", crand.Text())
	}
	for range 20 {
		w.note("number %d %d", rand.Uint64(), rand.N(100))
		time.Sleep(time.Duration(rand.N(int64(time.Millisecond))))
	}
	w.note("number %v", rand.Perm(20))
	dir := t.TempDir()
	for range 3 {
		f, err := os.CreateTemp(dir, "*")
		if err != nil {
			panic(err)
		}
		w.note("file %s", filepath.Base(f.Name()))
		if err := f.Close(); err != nil {
			panic(err)
		}
	}
}

func (w *world) locks(*testing.T) {
	var mu sync.Mutex
	var rw sync.RWMutex
	cond := sync.NewCond(&mu)
	turn := 0
	for i := range 20 {
		w.wg.Go(func() {
			for range 20 {
				mu.Lock()
				turn++
				w.note("lock %d %d", i, turn)
				runtime.Gosched() // others start to wait
				mu.Unlock()
				rw.RLock()
				runtime.Gosched()
				rw.RUnlock()
				rw.Lock()
				w.note("write %d", i)
				rw.Unlock()
			}
			mu.Lock()
			for turn < 400 {
				cond.Wait()
			}
			w.note("woken %d", i)
			mu.Unlock()
			cond.Broadcast()
		})
	}
}

func (w *world) contexts(t *testing.T) {
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		for i := range 40 {
			context.AfterFunc(ctx, func() { w.note("context-after %d", i) })
			child, stop := context.WithCancel(ctx)
			w.wg.Go(func() {
				defer stop()
				<-child.Done()
				w.note("context-child %d", i)
			})
		}
		time.Sleep(4 * time.Millisecond)
		cancel()
	}
}

// yields starts more goroutines than the processor's own queue holds.
func (w *world) yields(*testing.T) {
	for i := range 300 {
		w.wg.Go(func() {
			for range 3 {
				runtime.Gosched()
			}
			w.note("yield %d", i)
		})
	}
}

type message struct {
	ID   int               `json:"id"`
	Meta map[string]string `json:"meta"`
}

func (w *world) messages(*testing.T) {
	in, out := make(chan []byte, 4), make(chan message)
	for range 4 {
		w.wg.Go(func() {
			for raw := range in {
				var m message
				if err := json.Unmarshal(raw, &m); err != nil {
					panic(err)
				}
				out <- m
			}
		})
	}
	w.wg.Go(func() {
		defer close(in)
		for i := range 100 {
			raw, err := json.Marshal(message{i, map[string]string{"a": "b", "c": "d"}})
			if err != nil {
				panic(err)
			}
			in <- raw
		}
	})
	for range 100 {
		w.note("message %v", <-out)
	}
}

// calls makes system calls that take real time, beside goroutines that run.
func (w *world) calls(*testing.T) {
	for i := range 5 {
		w.wg.Go(func() {
			for range 4 {
				realSleep(3 * time.Millisecond)
				w.note("call %d", i)
			}
		})
	}
}

// long computes for longer than a time slice, and makes garbage.
func (w *world) long(*testing.T) {
	for i := range 3 {
		w.wg.Go(func() {
			sum := 0
			var keep [][]byte
			for n := range 30_000_000 {
				sum += n ^ i
				if n%30_000 == 0 {
					keep = append(keep, make([]byte, 16<<10))
				}
			}
			w.note("long %d %d %d", i, sum, len(keep))
		})
	}
}
