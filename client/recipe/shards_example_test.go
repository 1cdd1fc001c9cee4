//go:build unix

package recipe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

// Divide work over the processes that run this, and find the one that serves a
// key.
func ExampleShards() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	shards, err := recipe.NewShards("/orders/", 4)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		ended <- shards.Serve(ctx, cell, "host1", []byte("10.0.0.1:80"), func(ctx context.Context, shard int, held *client.Held) error {
			// Serve the shard until ctx ends, and send held.Token with each write.
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	for owners, err := range shards.Owners(ctx, cell) {
		if err != nil {
			log.Fatal(err)
		}
		if at := owners[shards.For("order 17")]; at.Name != "" {
			fmt.Printf("order 17 is at %s\n", at.Value)
			break
		}
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// order 17 is at 10.0.0.1:80
	// context canceled
}
