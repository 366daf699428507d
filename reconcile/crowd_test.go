package reconcile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCrowd: one that comes when all places are taken is served, and the one that
// has been there longest is closed: one that says nothing, or whom an answer is
// being made for.
func TestCrowd(t *testing.T) {
	begun := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- struct{}{}
			<-r.Context().Done()
		}
	}))
	crowd := NewCrowd(3)
	srv.Config.ConnState = crowd.Note
	srv.Start()
	defer srv.Close()
	open := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err == nil {
			_, err = fmt.Fprint(conn, request)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	served := func() net.Conn {
		t.Helper()
		conn := open("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	closed := func(conn net.Conn) {
		t.Helper()
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("it isn't closed: %v", err)
		}
	}
	waiting := open("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	first, second := served(), served()
	third := served()
	closed(waiting)
	served()
	closed(first)
	third.Close()
	served()
	served()
	closed(second)
	for range 100 {
		served().Close()
	}
	crowd.mu.Lock()
	defer crowd.mu.Unlock()
	if n := len(crowd.place); n > 3 || n != crowd.open.Len() {
		t.Errorf("%d places", n)
	}
}
