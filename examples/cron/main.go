// Command cron runs a job once in each period, on one of the machines that run this
// program.
//
//	cron HOST PERIOD DURATION
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

func main() {
	host := os.Args[1]
	period, errPeriod := time.ParseDuration(os.Args[2])
	duration, errDuration := time.ParseDuration(os.Args[3])
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err := errors.Join(errPeriod, errDuration, err); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), duration)
	defer stop()
	err = recipe.EachPeriod(ctx, cell, "/examples/cron", period, func(ctx context.Context, begins time.Time, held *client.Held) error {
		// The context ends with the hold: stop the work then. The job runs again if it
		// returns an error, or if its machine dies.
		fmt.Printf("%s %s\n", begins.Format(time.TimeOnly), host)
		return nil
	}, client.Name(host))
	if !errors.Is(err, context.DeadlineExceeded) {
		log.Fatal(err)
	}
}
