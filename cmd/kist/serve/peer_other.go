//go:build !linux

package serve

import (
	"errors"
	"net/netip"
)

// errPeer means that the owner of a connection is unknown.
var errPeer = errors.New("the user of the connection is unknown")

// peerUID returns an error that matches [errors.ErrUnsupported]: only Linux lists the owners
// of connections.
func peerUID(netip.AddrPort, netip.AddrPort) (int, error) { return 0, errors.ErrUnsupported }
