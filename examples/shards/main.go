// Command shards divides eight shards of work over the copies that run.
//
//	shards NAME
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

func main() {
	name := os.Args[1]
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	shards, err := recipe.NewShards("/examples/shards/", 8)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(shards.Serve(context.Background(), cell, name, []byte(name), func(ctx context.Context, shard int, held *client.Held) error {
		fmt.Printf("%s serves shard %d, with token %d\n", name, shard, held.Token())
		<-ctx.Done() // work until then, and send the token with each write
		fmt.Printf("%s has left shard %d\n", name, shard)
		return nil
	}, client.Name(name), client.TTL(5*time.Second)))
}
