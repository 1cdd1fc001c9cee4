package client

import (
	"errors"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	text := ": hello\n\nretry: 10\nid: 7\nevent: a\ndata: one\ndata:two\n\nid: 8\r\nevent: b\r\ndata:  " + long + "\r\n\r\nevent: lost\n\ndata\n\nid: 9\ndata: cut off\n"
	m := newMessages(strings.NewReader(text))
	for _, want := range []message{{"7", "a", []byte("one\ntwo")}, {"8", "b", []byte(" " + long)}, {"", "", []byte("")}} {
		got, err := m.next()
		if err != nil || got.id != want.id || got.event != want.event || string(got.data) != string(want.data) {
			t.Fatalf("%.40q %q %q, %v", got.data, got.id, got.event, err)
		}
	}
	if got, err := m.next(); err == nil {
		t.Errorf("an incomplete message is read as %+v", got)
	}
	for _, endless := range []string{"data: " + strings.Repeat("x", mostMessage+1), strings.Repeat("data: "+long+"\n", mostMessage/len(long)+1)} {
		if _, err := newMessages(strings.NewReader(endless)).next(); !errors.Is(err, errLongMessage) {
			t.Errorf("a message without end: %v", err)
		}
	}
}
