package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRelay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	defer server.Close()
	r, err := newRelay(server.Listener.Addr().String())
	check(t, err)
	defer r.Close()
	transport := &http.Transport{MaxConnsPerHost: 1}
	client := &http.Client{Transport: transport}
	const size = 3*mib + 1
	ask := func(method string, body io.Reader, want string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Addr().String(), body)
		check(t, err)
		answer, err := client.Do(request)
		check(t, err)
		defer answer.Body.Close()
		if got, err := io.ReadAll(answer.Body); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", method, got, err, want)
		}
	}
	ask("GET", nil, "0")
	ask("PUT", strings.NewReader(strings.Repeat("x", size)), fmt.Sprint(size))
	ask("PUT", strings.NewReader("abc"), "3")
	ask("GET", nil, "0")
	transport.CloseIdleConnections()
	before := r.carried()
	if before.requests != 4 || before.sent < size || before.sent > size+4<<10 || before.received < 400 {
		t.Errorf("four requests with %d bytes: %+v", size, before)
	}

	// The length of the body is unknown.
	ask("PUT", io.MultiReader(strings.NewReader("abc"), strings.NewReader("de")), "5")
	transport.CloseIdleConnections()
	if more := r.carried().minus(before); more.requests != 1 || more.sent < 5 {
		t.Errorf("a chunked request: %+v", more)
	}
}
