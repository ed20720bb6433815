package remotetest

// Op is a method of [remote.Backend].
type Op uint8

// The methods.
const (
	Any Op = iota // each call, of whatever method
	Get
	Put
	Stat
	List
	Delete
	Create
	ops
)

// String returns the method as [remote.Error] names it.
func (o Op) String() string {
	return [...]string{"any", "get", "put", "stat", "list", "delete", "create"}[o]
}
