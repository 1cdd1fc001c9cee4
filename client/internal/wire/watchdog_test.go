package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hedger records when it is called.
type hedger struct {
	start time.Time
	calls []time.Duration
	again time.Duration
	under context.Context
	then  func()
}

func (s *hedger) Late() (time.Duration, context.Context) {
	s.calls = append(s.calls, time.Since(s.start))
	if s.then != nil {
		s.then()
	}
	return s.again, s.under
}

func (s *hedger) want(t *testing.T, calls ...time.Duration) {
	t.Helper()
	if !slices.Equal(s.calls, calls) {
		t.Errorf("called at %v, want %v", s.calls, calls)
	}
}

// hedged makes an exchange in a bubble over the given kind of connection,
// within ten seconds and with a patience of 300 ms. serve is the server. It
// returns how long the exchange took.
func hedged(t *testing.T, ctx context.Context, over kind, s *hedger, body string, serve func(net.Conn)) (Answer, time.Duration, error) {
	t.Helper()
	near, far := over(t)
	go func() {
		defer far.Close()
		serve(far)
	}()
	q := &Request{Method: http.MethodPut, Host: "h", Target: "/", Body: []byte(body)}
	q.watchdog = NewWatchdog(s, 300*time.Millisecond)
	a, _, err := newConn(near).exchange(ctx, q, time.Now().Add(10*time.Second), new(bytes.Buffer), 1<<20)
	took := time.Since(s.start)
	near.Close()
	return a, took, err
}

// swallow reads until the other side stops writing.
func swallow(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// readLate waits a second, then reads the whole request and answers it.
func readLate(c net.Conn) {
	time.Sleep(time.Second)
	q, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, q.Body); err == nil {
		_, _ = io.WriteString(c, ok)
	}
}

func TestPatience(t *testing.T) {
	const ms = time.Millisecond
	after := func(pauses ...time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			go swallow(c)
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			for i, d := range pauses {
				time.Sleep(d)
				part := answer
				if i < len(pauses)-1 {
					part, answer = answer[:20], answer[20:]
				}
				_, _ = io.WriteString(c, part)
			}
		}
	}
	for name, test := range map[string]struct {
		again time.Duration
		serve func(net.Conn)
		calls []time.Duration
		took  time.Duration
		err   error
	}{
		"in time":                {500 * ms, after(299 * ms), nil, 299 * ms, nil},
		"in parts":               {500 * ms, after(200*ms, 1900*ms), nil, 2100 * ms, nil},
		"stalls":                 {500 * ms, after(200*ms, 2100*ms), nil, 2200 * ms, ErrStalled},
		"later":                  {0, after(5000 * ms), []time.Duration{300 * ms}, 5000 * ms, nil},
		"later, called again":    {500 * ms, after(1000 * ms), []time.Duration{300 * ms, 800 * ms}, 1000 * ms, nil},
		"later, in parts":        {500 * ms, after(400*ms, 1900*ms), []time.Duration{300 * ms}, 2300 * ms, nil},
		"never":                  {0, swallow, []time.Duration{300 * ms}, 10_000 * ms, ErrLate},
		"never, called again":    {6000 * ms, swallow, []time.Duration{300 * ms, 6300 * ms}, 10_000 * ms, ErrLate},
		"does not take the body": {0, func(c net.Conn) { time.Sleep(time.Second); after(0)(c) }, []time.Duration{300 * ms}, 1000 * ms, nil},
		"takes the body late":    {0, readLate, []time.Duration{300 * ms}, 1000 * ms, nil},
	} {
		for over, dial := range bubbleKinds {
			t.Run(name+", "+over, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &hedger{start: time.Now(), again: test.again}
					a, took, err := hedged(t, t.Context(), dial, s, strings.Repeat("x", 1<<10), test.serve)
					time.Sleep(time.Second) // for the server's late answer
					if !errors.Is(err, test.err) || err == nil && string(a.Body) != "ok" {
						t.Errorf("%q, %v", a.Body, err)
					}
					if took != test.took {
						t.Errorf("took %s, want %s", took, test.took)
					}
					s.want(t, test.calls...)
				})
			})
		}
	}
}

// The exchange ends with the caller's context and with the hedger's, before and
// after the hedger was called.
func TestHedgedExchangeIsCut(t *testing.T) {
	for name, over := range bubbleKinds {
		t.Run(name, func(t *testing.T) { testHedgedExchangeIsCut(t, over) })
	}
}

func testHedgedExchangeIsCut(t *testing.T, over kind) {
	for _, at := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			s := &hedger{start: time.Now(), again: 400 * time.Millisecond}
			_, took, err := hedged(t, ctx, over, s, "", swallow)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLate) || took != at {
				t.Errorf("%v after %s, want it after %s", err, took, at)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			under, cancel := context.WithCancel(t.Context())
			s := &hedger{start: time.Now(), again: 400 * time.Millisecond, under: under}
			s.then = func() { time.AfterFunc(at, cancel) }
			_, took, err := hedged(t, t.Context(), over, s, "", swallow)
			if !errors.Is(err, context.Canceled) || took != at+300*time.Millisecond {
				t.Errorf("%v after %s, want it %s after the call", err, took, at)
			}
			cancel()
		})
		synctest.Test(t, func(t *testing.T) { // the hedger itself ends the context
			ctx, cancel := context.WithCancel(t.Context())
			s := &hedger{start: time.Now(), then: func() { cancel(); synctest.Wait() }}
			_, took, err := hedged(t, ctx, over, s, "", swallow)
			if !errors.Is(err, context.Canceled) || took != 300*time.Millisecond {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
}

// During a dial a timer runs the watchdog.
func TestWatchdogDuring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, end := context.WithCancel(t.Context())
		s := &hedger{start: time.Now(), again: time.Second, under: under}
		v := NewWatchdog(s, 300*time.Millisecond)
		cut := make(chan time.Duration, 1)
		stop := v.During(func() { cut <- time.Since(s.start) })
		time.AfterFunc(2*time.Second, end)
		if got := <-cut; got != 2*time.Second {
			t.Errorf("cut at %s", got)
		}
		stop()
		time.Sleep(time.Minute)
		s.want(t, 300*time.Millisecond, 1300*time.Millisecond)

		still := Watchdog{}
		still.During(func() { t.Error("cut without a hedger") })()

		again := &hedger{start: time.Now()}
		v = NewWatchdog(again, 300*time.Millisecond)
		stop = v.During(func() { t.Error("cut after it was stopped") })
		time.Sleep(100 * time.Millisecond)
		stop()
		time.Sleep(time.Minute)
		again.want(t)
	})
}

// The hedger is called during a dial that hangs, and may end it.
func TestHedgedDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	under, cancel := context.WithCancel(t.Context())
	cancel()
	s := &hedger{start: time.Now(), under: under}
	v := NewWatchdog(s, time.Nanosecond)
	v.late() // as if during the dial
	if _, err := new(Pool).connect(t.Context(), l.Addr().String(), time.Now().Add(time.Minute), &v); err == nil {
		t.Error("dialled though the hedger has ended it")
	}
}

// A connection that was made after the hedger ended the exchange is not used.
// The error shows that no byte was sent on it.
func TestConnectionMadeAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, end := context.WithCancel(t.Context())
		s := &hedger{start: time.Now(), under: under, then: end}
		near, far := net.Pipe()
		defer far.Close()
		pool := Pool{Dial: func(context.Context, string) (net.Conn, error) {
			time.Sleep(time.Second)
			return near, nil
		}}
		q := &Request{
			Method: http.MethodPut, Addr: "h:1", Host: "h", Target: "/", Within: 10 * time.Second,
			Hedger: s, Patience: 300 * time.Millisecond,
		}
		_, err := pool.Do(t.Context(), q, new(bytes.Buffer), 1<<20)
		op, ok := errors.AsType[*net.OpError](err)
		if !ok || op.Op != "dial" || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d bytes were sent, %v", n, err)
		}
	})
}
