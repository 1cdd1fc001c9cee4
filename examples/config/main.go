// Command config follows its configuration, a small file in the cell. An invalid file
// changes nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

// settings is the program's configuration.
type settings struct {
	Level   int
	Servers []string
}

func parse(content []byte) (s settings, err error) {
	if err = json.Unmarshal(content, &s); err == nil && s.Level < 0 {
		err = fmt.Errorf("level %d is negative", s.Level)
	}
	return s, err
}

func main() {
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	config, err := recipe.FollowConfig(context.Background(), cell, "/examples/config", settings{Level: 1}, parse)
	if err != nil {
		log.Fatal(err)
	}
	for {
		changed := config.Changed() // before the value is read, so that no change is missed
		fmt.Printf("level %d, servers %q, error: %v\n", config.Value().Level, config.Value().Servers, config.Err())
		<-changed
	}
}
