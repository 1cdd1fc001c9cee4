package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

// BenchmarkOverwrite overwrites files of 1 KiB in batches of the given size,
// without a session, and exactly once for sessions. An operation is one write.
func BenchmarkOverwrite(b *testing.B) {
	content := strings.Repeat("x", 1<<10)
	for _, files := range []int{128, 100_000} {
		for _, keyed := range []bool{false, true} {
			for _, n := range []int{1, 128} {
				b.Run(fmt.Sprintf("files=%d/keyed=%v/batch=%d", files, keyed, n), func(b *testing.B) {
					s := opened(b, 128)
					for i := range files {
						s = applied(b, s, overwrite(i, content))
					}
					b.ReportAllocs()
					b.ResetTimer()
					for done := 0; done < b.N; done += n {
						var batch []state.Command
						for i := range n {
							c := overwrite(i, content)
							if keyed {
								op := c.Operation.(*state.Transaction)
								op.Session, op.Key, op.Digest = sessionID(i), fmt.Sprint(done), []byte("0123456789abcdef")
							}
							batch = append(batch, c)
						}
						s = applied(b, s, batch...)
					}
				})
			}
		}
	}
}

func overwrite(i int, content string) state.Command {
	return state.Command{Time: 1_700_000_000_000_000_000, Operation: &state.Transaction{
		Then: []state.Step{write(fmt.Sprintf("/bench/%d", i), content, state.Write{})}}}
}
