// Command handover is a service with a preferred machine: any copy may lead, and gives
// way when a copy of higher priority comes.
//
//	handover NAME PRIORITY
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

func main() {
	name := os.Args[1]
	priority, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(recipe.Lead(context.Background(), cell, "/examples/handover", []byte(name), recipe.Callbacks{
		Started: func(ctx context.Context, lead *recipe.Leadership) error {
			fmt.Printf("%s leads, with token %d\n", name, lead.Token())
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), recipe.ErrHandover) {
				// The next leader starts when this function returns: finish the work first.
				fmt.Printf("%s hands over\n", name)
			}
			return nil
		},
		Priority: priority,
		Handover: func() bool { return true }, // or only when the work permits it
	}, client.Name(name), client.TTL(5*time.Second)))
}
