package wire

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// A caller that announces a long body but does not send it costs no more than
// others.
func TestBodiesTakeMemoryAsTheyArrive(t *testing.T) {
	const announced = 16 << 20
	s := &Server{BodyTimeout: time.Hour, MaxHeaderBytes: 1 << 10, MaxBody: func(*http.Request) int64 { return announced }, Waits: func(net.Conn) {}}
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", announced)
	c := newConn(s, &fed{text: []byte(head), piece: len(head)})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var r http.Request
	if refused := c.read(&r); refused != nil {
		t.Fatal(refused)
	}
	runtime.ReadMemStats(&after)
	if _, cut := r.Body.(cutBody); !cut {
		t.Error("the body is whole")
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > announced/16 {
		t.Errorf("it took %d bytes", took)
	}
}
