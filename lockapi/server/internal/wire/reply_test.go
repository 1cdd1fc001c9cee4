package wire

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// FuzzFields compares the headers of a reply with net/http's.
func FuzzFields(f *testing.F) {
	f.Add("Vary: Origin\x00Date: today\x00Vary: Accept\x00Etag: \"7\"")
	f.Add("A: \x00B:  v \x00C: \tv\x00D: v\r\nE: f\x00G: a\nb\x00H: a\rb")
	f.Add("no name: v\x00: v\x00A:B: v\x00Ä: v\x00A\n: v\x00a: small")
	f.Fuzz(func(t *testing.T, text string) {
		h := http.Header{}
		for field := range strings.SplitSeq(text, "\x00") {
			name, value, _ := strings.Cut(field, ": ")
			h[name] = append(h[name], value)
		}
		var want bytes.Buffer
		wantErr := h.Write(&want)
		w := &reply{header: h}
		if err := w.fields(); err != wantErr || w.head.String() != want.String() {
			t.Errorf("%q is written as %q, %v, and by net/http as %q, %v", h, &w.head, err, &want, wantErr)
		}
	})
}

// A refused request with many headers leaves no large map for later requests.
func TestManyHeadersAreNotKept(t *testing.T) {
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("%X", 1<<20+i))
	}
	text := "GET / HTTP/1.1\r\n" + strings.Join(names, ":\r\n") + ":\r\n\r\n" // without a Host
	s := &Server{MaxHeaderBytes: 1 << 20, Waits: func(net.Conn) {}, Refuse: func(int, string) []byte { return nil }}
	newConn(s, &fed{text: []byte(text), piece: len(text)}).exchange()
	w := newReply()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, name := range names {
		w.asked[name] = nil
	}
	if runtime.ReadMemStats(&after); before.Mallocs == after.Mallocs {
		t.Error("the next reply has a large map")
	}
}
