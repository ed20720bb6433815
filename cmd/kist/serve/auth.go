package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/cmd/kist/serve/access"
)

// Proxy has the reverse proxies in front of a server. The server believes their headers
// X-Forwarded-For, UserHeader and GroupsHeader, and of no other client. A proxy must replace
// these headers in each request.
type Proxy struct {
	From         []netip.Prefix // their addresses; a client of a Unix socket always counts as a proxy
	UserHeader   string         // the header with the name of the user; "": proxies do not know users
	GroupsHeader string         // the header with the groups of the user, separated by commas; may be ""
}

// HasUsers reports whether the server asks visitors who they are. Otherwise every visitor is
// the owner of the repository.
func (o *Options) HasUsers() bool { return o.Users.needsLogin() || o.Proxy.UserHeader != "" }

// reserved reports whether a word stands for many users in rules of access.
func reserved(name string) bool { return name == access.Everyone || name == access.Users }

// connection describes the connection of a request.
type connection struct {
	unix   bool
	client netip.AddrPort
	uid    func() (int, error) // of the client, on the loopback interface
}

type connectionKey struct{}

// withConnection adds the connection to the context of its requests.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	v := &connection{unix: c.LocalAddr().Network() == "unix"}
	if client, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		server, err := netip.ParseAddrPort(c.LocalAddr().String())
		v.client = client
		v.uid = sync.OnceValues(func() (int, error) {
			if err != nil {
				return 0, err
			}
			return peerUID(client, server)
		})
	}
	return context.WithValue(ctx, connectionKey{}, v)
}

func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	if c == nil {
		return &connection{}
	}
	return c
}

// trustsAddress reports whether an address is that of a proxy.
func (p *Proxy) trustsAddress(at netip.Addr) bool {
	for _, prefix := range p.From {
		if prefix.Contains(at.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// clientAddress returns the address of the client, behind the proxies.
func (s *Server) clientAddress(r *http.Request) netip.Addr {
	c := connectionOf(r)
	at := c.client.Addr()
	if !c.unix && !s.o.Proxy.trustsAddress(at) {
		return at
	}
	list := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(list) - 1; i >= 0; i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(list[i]))
		if err != nil {
			break
		}
		if at = next; !s.o.Proxy.trustsAddress(at) {
			break
		}
	}
	return at
}

// userOf returns the user of a request. The error is an httpError.
func (s *Server) userOf(r *http.Request) (access.User, error) {
	switch {
	case s.o.Proxy.UserHeader != "":
		return s.userOfProxy(r)
	case s.o.Users.needsLogin():
		return s.userOfLogin(r)
	}
	if err := s.checkOwner(r); err != nil {
		return access.User{}, err
	}
	return access.User{Name: s.owner.Name, Email: s.owner.Email, Owner: true}, nil
}

// userOfProxy returns the user that the proxy names. Without a name, it is a visitor.
func (s *Server) userOfProxy(r *http.Request) (access.User, error) {
	c := connectionOf(r)
	if !c.unix && !s.o.Proxy.trustsAddress(c.client.Addr()) {
		return access.User{}, httpError{http.StatusForbidden, "only the reverse proxy may connect"}
	}
	names := r.Header.Values(s.o.Proxy.UserHeader)
	if len(names) == 0 || len(names) == 1 && names[0] == "" {
		return access.User{}, nil
	}
	if len(names) > 1 || reserved(names[0]) {
		return access.User{}, httpError{http.StatusForbidden, "this is no name of a user"}
	}
	u := access.User{Name: names[0], Groups: s.o.Users.Groups(names[0]), Owner: slices.Contains(s.o.Owners, names[0])}
	if s.o.Proxy.GroupsHeader != "" {
		for group := range strings.SplitSeq(strings.Join(r.Header.Values(s.o.Proxy.GroupsHeader), ","), ",") {
			if group = strings.TrimSpace(group); group != "" && !reserved(group) {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	return u, nil
}

// userOfLogin returns the user who logs in with a password. Without one, it is a visitor.
func (s *Server) userOfLogin(r *http.Request) (access.User, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return access.User{}, nil
	}
	client := s.clientAddress(r)
	v, err := s.o.Users.verifyPassword(r.Context(), network(client).String(), name, password, func() (func(bool), bool) { return s.failures.reserveEvent(client) })
	if err != nil {
		s.o.Log("users: " + err.Error())
	}
	switch v {
	case right:
		return access.User{Name: name, Groups: s.o.Users.Groups(name), Owner: slices.Contains(s.o.Owners, name)}, nil
	case tooMany:
		return access.User{}, httpError{http.StatusTooManyRequests, "too many wrong passwords: wait a minute"}
	case busy:
		return access.User{}, errBusy
	case unknown:
		return access.User{}, r.Context().Err()
	}
	return access.User{}, errLogin
}

// errLogin asks for a name and a password.
var errLogin = httpError{http.StatusUnauthorized, "log in with a name and a password"}

// checkOwner returns an error if the client on the other end is not the user who runs the
// server, nor root. The loopback interface is open to all users of the machine.
func (s *Server) checkOwner(r *http.Request) error {
	c := connectionOf(r)
	if c.unix || c.uid == nil { // the mode of the socket decides
		return nil
	}
	uid, err := c.uid()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		s.o.Log("a client on the loopback interface was refused: " + err.Error())
	case uid == os.Geteuid() || uid == 0:
		return nil
	}
	return httpError{http.StatusForbidden, "this server belongs to another user of the machine"}
}

// authenticate puts the user of a request in its context.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := s.userOf(r)
		if err != nil {
			s.site.Fail(w, r, err)
			return
		}
		if a, ok := w.(*answer); ok {
			a.user = user.Name
		}
		next.ServeHTTP(w, r.WithContext(access.WithUser(r.Context(), user)))
	})
}

// onlyNamed refuses visitors without a name.
func (s *Server) onlyNamed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u := access.UserOf(r.Context()); u.Name == "" && !u.Owner {
			s.site.Fail(w, r, errLogin)
			return
		}
		next.ServeHTTP(w, r)
	})
}
