package access

import (
	"context"
	"slices"
)

// Everyone and Users are the words of a rule that stand for many: Everyone for each visitor,
// Users for each visitor with a name.
const (
	Everyone = "everyone"
	Users    = "users"
)

// User is a visitor of the server. The zero value is a visitor without a name.
type User struct {
	Name   string
	Email  string // may be empty
	Groups []string

	// Owner is set for the user who runs the server. No rule applies to the owner.
	Owner bool
}

// AnyUser may do what every user with a name may. A comma separates the names of a rule, so
// no rule names AnyUser.
var AnyUser = User{Name: ","}

// In reports whether a list of words, which commas separate, has the user: by name, by a
// group, or by [Everyone] or [Users].
func (u User) In(list string) bool {
	for word := range words(list) {
		switch {
		case word == Everyone:
			return true
		case u.Name == "":
		case word == Users || word == u.Name || slices.Contains(u.Groups, word):
			return true
		}
	}
	return false
}

type userKey struct{}

// WithUser returns a context that carries the user of a request.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserOf returns the user of a request. Without one, it returns a visitor without a name.
func UserOf(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}
