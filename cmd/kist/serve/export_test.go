package serve

import (
	"net/netip"

	"golang.org/x/crypto/bcrypt"
)

// APIRoutes returns the paths of all routes of the API, as in OpenAPI.
func APIRoutes() (paths []string) {
	for _, route := range apiRoutes {
		paths = append(paths, apiPrefix+route.pattern)
	}
	return paths
}

// LimitConnections sets the most connections, in all and of each client.
func (s *Server) LimitConnections(all, each int) { s.open.all, s.open.each = all, each }

// TakeCostly takes a place of a user for costly requests.
func (s *Server) TakeCostly(user string) error {
	_, err := s.costly.takePlace("user " + user)
	return err
}

// OtherCost returns the cost of the hash with which the password of an unknown user is compared.
func (u *Users) OtherCost(name string) (int, error) {
	users, err := u.users.loadValues()
	if err != nil {
		return 0, err
	}
	return bcrypt.Cost([]byte(u.otherHash(name, users)))
}

// ReserveGuesses reserves guesses of passwords by one address until one is refused.
func (s *Server) ReserveGuesses() (settle []func(failed bool)) {
	for {
		one, ok := s.failures.reserveEvent(netip.Addr{})
		if !ok {
			return settle
		}
		settle = append(settle, one)
	}
}
