// Command lookup publishes the addresses of a service's copies, and finds them.
//
//	lookup serve NAME ADDRESS
//	lookup find
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

const group = "/examples/lookup/"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "serve":
		// The entry goes when this program ends, or its ttl after it died.
		err = recipe.Stay(ctx, cell, group, os.Args[2], []byte(os.Args[3]), client.TTL(5*time.Second))
	case "find":
		err = find(ctx, cell)
	default:
		err = fmt.Errorf("unknown command %q: use serve or find", os.Args[1])
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// find prints the addresses after each change.
func find(ctx context.Context, cell *client.Client) error {
	for members, err := range recipe.Members(ctx, cell, group) {
		if err != nil {
			return err
		}
		var addresses []string
		for _, m := range members {
			addresses = append(addresses, m.Name+"="+string(m.Value))
		}
		fmt.Println("addresses:", strings.Join(addresses, " "))
	}
	return ctx.Err()
}
