package serve

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// errPeer means that the owner of a connection is unknown.
var errPeer = errors.New("the user of the connection is unknown")

// peerUID returns the user ID of the process on this machine that has the other end of a TCP
// connection, as the kernel lists it.
func peerUID(client, server netip.AddrPort) (int, error) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		uid, err := findPeer(file, client, server)
		if err == nil {
			return uid, nil
		}
	}
	return 0, errPeer
}

// findPeer looks for the socket of a client in one of the kernel's lists.
func findPeer(file string, client, server netip.AddrPort) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		fields := strings.Fields(scanner.Text())
		if len(fields) < 10 || fields[3] != "01" || fields[9] == "0" { // established, and owned by a process
			continue
		}
		local, err1 := socketAddr(fields[1])
		remote, err2 := socketAddr(fields[2])
		if err1 == nil && err2 == nil && local == plain(client) && remote == plain(server) {
			return strconv.Atoi(fields[7])
		}
	}
	return 0, errors.Join(errPeer, scanner.Err())
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// socketAddr parses an address such as 0100007F:1F90: words in the machine's order of bytes.
func socketAddr(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	data, err := hex.DecodeString(host)
	if err != nil || len(data) != 4 && len(data) != 16 {
		return netip.AddrPort{}, errPeer
	}
	for word := range len(data) / 4 {
		part := data[4*word : 4*word+4]
		binary.NativeEndian.PutUint32(part, binary.BigEndian.Uint32(part))
	}
	number, err := strconv.ParseUint(port, 16, 16)
	addr, _ := netip.AddrFromSlice(data)
	return plain(netip.AddrPortFrom(addr, uint16(number))), err
}
