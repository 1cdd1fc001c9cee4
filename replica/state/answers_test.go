package state

import (
	"fmt"
	"testing"
)

// TestAnswersAreFound: the last MostAnswers keys are found, whatever their hashes
// share, no others are, and earlier versions of the list stay as they were.
func TestAnswersAreFound(t *testing.T) {
	a := &Answers{}
	var all []*Answer
	for n := range 3 * MostAnswers {
		before, had := a, a.Len()
		one := &Answer{Key: fmt.Sprint("key ", n)}
		var forgotten *Answer
		a, forgotten = a.add(one)
		all = append(all, one)
		if want := max(0, len(all)-MostAnswers); a.Len() != min(len(all), MostAnswers) || a.At(0) != all[want] || want > 0 && forgotten != all[want-1] {
			t.Fatalf("after %d: %d answers from %q on, %v is forgotten", n+1, a.Len(), a.At(0).Key, forgotten)
		}
		sum := int64(0)
		for i, one := range all {
			found, ok := a.get(one.Key)
			if kept := i >= len(all)-MostAnswers; ok != kept || kept && found != one {
				t.Fatalf("after %d: %q is found: %v", n+1, one.Key, ok)
			} else if kept {
				sum += one.Bytes()
			}
		}
		if a.bytes != sum || a.OldestBytes() != a.At(0).Bytes() {
			t.Fatalf("after %d: %d bytes, want %d", n+1, a.bytes, sum)
		}
		if _, ok := before.get(one.Key); ok || before.Len() != had {
			t.Fatalf("after %d: the list before has changed", n+1)
		}
	}
}
