package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

var (
	seed     = flag.Uint64("seed", 1, "seed of the first life; later lives use the next seeds")
	lives    = flag.Int("lives", 0, "maximum number of lives; 0 for no bound")
	duration = flag.Duration("duration", 0, "start no new life after this time; 0 for no bound")
	rounds   = flag.Int("rounds", 12, "rounds in each life")
	points   = flag.Int("points", 12, "crashes in each round")
	dir      = flag.String("dir", "", "directory for temporary files and for the files of a failure")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func run() error {
	work := filepath.Join(*dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	began, told := time.Now(), time.Now()
	var c count
	tell := func() {
		fmt.Printf("%v: %d crashes in %d rounds of %d lives, with %d events\n", time.Since(began).Round(time.Second), c.crashes, c.rounds, c.lives, c.events)
		told = time.Now()
	}
	defer tell()
	for s := *seed; ; s++ {
		if *lives > 0 && c.lives == *lives || *duration > 0 && time.Since(began) > *duration {
			return nil
		}
		if err := live(s, work, *rounds, *points, &c); err != nil {
			return err
		}
		if time.Since(told) > time.Minute {
			tell()
		}
	}
}
