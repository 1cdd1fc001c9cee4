// Command semaphore lets at most two workers of all machines work at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
)

func main() {
	ctx := context.Background()
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	session, err := cell.NewSession(ctx, client.Name("semaphore"))
	if err != nil {
		log.Fatal(err)
	}
	var workers sync.WaitGroup
	var now, most atomic.Int32
	errs := make([]error, 6)
	for i := range errs {
		workers.Go(func() {
			errs[i] = session.Do(ctx, "/examples/semaphore", func(ctx context.Context, held *client.Held) error {
				at := now.Add(1)
				defer now.Add(-1)
				for had := most.Load(); at > had && !most.CompareAndSwap(had, at); had = most.Load() {
				}
				time.Sleep(50 * time.Millisecond) // the work
				return ctx.Err()
			}, client.Limit(2))
		})
	}
	workers.Wait()
	if err := errors.Join(append(errs, session.Close(ctx))...); err != nil {
		log.Fatal(err)
	}
	fmt.Println("6 workers have worked, at most", most.Load(), "at a time")
}
