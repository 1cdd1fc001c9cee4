// Command choice prints the results of functions of many shapes, for edits to
// change.
package main

import "fmt"

const step = 1

type pair[K, V any] struct {
	key   K
	value V
}

func (p pair[K, V]) text(_ int, more ...string) string {
	return fmt.Sprint(p.key, "=", p.value, more)
}

func add(a, b int) int { return a + b }

func count(_ string, n *int) {
	*n += step
}

func last[T any](all []T) (out T, err error) {
	if len(all) == 0 {
		return out, nil
	}
	out = all[len(all)-1]
	return
}

func caught() (why any) {
	defer func() { why = catch() }()
	return nil
}

func catch() any {
	return recover()
}

func anonymous(int, string) string { return "of none" }

var started string

func init() { started = "first" }

func init() { started += ", second" }

func main() {
	n := 0
	count("", &n)
	word, err := last([]string{"a", "b"})
	fmt.Println(pair[string, int]{"k", 1}.text(0, "x", "y"), add(1, 2), n, word, err, caught(), anonymous(1, ""), started)
}
