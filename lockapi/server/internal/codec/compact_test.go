package codec

import "testing"

// TestCompactKeepsTheBody: a parked call is decoded from its body again.
func TestCompactKeepsTheBody(t *testing.T) {
	const text, want = `{"wait_ms": 8000, "ack": 3}`, `{"wait_ms":8000,"ack":3}`
	body := append(make([]byte, 0, 4<<10), text...) // as one that arrived in chunks
	if got := Compact(body); string(got) != want || string(body) != text {
		t.Errorf("%s is compacted to %s, and became %s", text, got, body)
	}
}
