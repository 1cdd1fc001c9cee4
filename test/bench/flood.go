package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/bench/internal/drive"
)

// floodTime is how long a flood goes on.
const floodTime = 20 * time.Second

// loadSlowloris keeps n connections to the master open: of three, one sends
// nothing, one a byte each second, and one asks for much and reads no reply.
// One that the master closes is opened again.
func loadSlowloris(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	id, err := openRaw(ctx, c, longTTL)
	if err != nil {
		return err
	}
	err = drive.Each(perSession, func(i int) error { // something to list
		return c.Call(ctx, http.MethodPut, fmt.Sprintf("%s/bench/slowloris/%d", lockapi.RouteLocks, i), ask(id, 0, 0, false), nil)
	})
	if err != nil {
		return err
	}
	view, err := o.cell.View(ctx)
	if err != nil {
		return err
	}
	target, err := url.Parse(view.Master.URL)
	if err != nil {
		return err
	}
	flood, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	var opened, failed atomic.Int64
	var all sync.WaitGroup
	for i := range o.n {
		all.Go(func() {
			for flood.Err() == nil {
				if dribble(flood, target.Host, i%3) != nil {
					failed.Add(1)
				} else {
					opened.Add(1)
				}
				_ = pause(flood, 100*time.Millisecond) // its end is the loop's
			}
		})
	}
	all.Wait()
	o.note("%d connections opened, %d could not be", opened.Load(), failed.Load())
	return closeRaw(ctx, c, id)
}

// dribble opens a connection and keeps it for as long as the other side, or
// ctx, lets it. The error is one of opening it.
func dribble(ctx context.Context, address string, manner int) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	const head = "GET /v1/locks?limit=1000 HTTP/1.1\r\nHost: localhost\r\n"
	switch manner {
	case 0:
		_, _ = io.Copy(io.Discard, c) // until it is closed
	case 1:
		_, err = io.WriteString(c, head+"X-Slow: ")
		for err == nil {
			_ = pause(ctx, time.Second) // its end closes c
			_, err = c.Write([]byte{'x'})
		}
	case 2:
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		for range 8 {
			_, err = io.WriteString(c, head+"\r\n")
		}
		for err == nil {
			_ = pause(ctx, time.Second)
			_, err = c.Write(nil)
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}
	return nil
}

// pageReaders are how many page at once.
const pageReaders = 16

// loadPages makes n locks and has readers list them.
func loadPages(ctx context.Context, o *overload) error {
	c := drive.NewCaller(o.cell.Way())
	defer c.Close()
	ids, err := openMany(ctx, c, (o.n+perSession-1)/perSession, func() time.Duration { return longTTL })
	if err != nil {
		return err
	}
	began := time.Now()
	err = drive.Each(o.n, func(i int) error {
		return c.Call(ctx, http.MethodPut, fmt.Sprintf("%s/bench/pages/%d", lockapi.RouteLocks, i), ask(ids[i/perSession], 0, 0, false), nil)
	})
	if err != nil {
		return err
	}
	o.note("%d locks taken in %.1f s", o.n, time.Since(began).Seconds())
	reading, stop := context.WithTimeout(ctx, floodTime)
	defer stop()
	var pages atomic.Int64
	var all sync.WaitGroup
	var failure atomic.Pointer[error]
	for range pageReaders {
		all.Go(func() {
			after := ""
			for reading.Err() == nil {
				var page lockapi.LockList
				err := c.Call(reading, http.MethodGet, fmt.Sprintf("%s?limit=%d&after=%s", lockapi.RouteLocks, lockapi.MaxListLimit, url.QueryEscape(after)), nil, &page)
				if err != nil && reading.Err() == nil {
					failure.Store(&err)
					return
				}
				after = page.Next
				pages.Add(1)
			}
		})
	}
	all.Wait()
	o.note("%.0f pages/s", float64(pages.Load())/floodTime.Seconds())
	if err := failure.Load(); err != nil {
		return *err
	}
	return errors.Join(ctx.Err(), drive.Each(len(ids), func(i int) error { return closeRaw(ctx, c, ids[i]) }))
}
