// Package fault selects the deliberate fault of a program that has several. A
// program built with overlay.Choice imports it; no source file does.
package fault

import (
	"fmt"
	"os"
	"strconv"
)

// Env is the environment variable that selects a fault by its number.
const Env = "STOUT_FAULT"

// Number is the number of the selected fault. It is 0 if Env is not set: then
// the program has no fault.
var Number = number(os.Getenv(Env))

func number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		panic(fmt.Sprintf("%s is %q; give the number of a fault", Env, text))
	}
	return n
}
